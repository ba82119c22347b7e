// Rows that are tokenized already, against TRL's SFTTrainer (tests/parity/record_token_rows.py).
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/forms/tokenize.h"
#include "data/records/packing.h"

namespace hone::data {
namespace token_rows_golden_test {

using base::Json;

const text::Tokenizer& tiny() {
  static const text::Tokenizer tokenizer = text::Tokenizer::from_folder(HONE_FIXTURES "/text/tiny");
  return tokenizer;
}

const text::ChatTemplate& chatml() {
  static const text::ChatTemplate chat_template(tiny().chat_template().value(), tiny().special(), "template");
  return chat_template;
}

struct Asked {
  TokenizeOptions options;
  std::int64_t max_length = 0;
  std::string packing;  // empty: none
};

Asked asked_of(const Json& recorded) {
  Asked out;
  const Json length = recorded.contains("max_length") ? recorded["max_length"] : Json(1024);
  out.max_length = length.is_null() ? 0 : length.get<std::int64_t>();
  if (recorded.value("packing", false)) out.packing = recorded.value("packing_strategy", "bfd");
  out.options.prepared = recorded.contains("dataset_kwargs");
  const bool keeps_all = out.packing == "bfd_split" || out.packing == "wrapped";
  out.options.max_length = keeps_all || out.options.prepared ? 0 : out.max_length;
  out.options.packing = !out.packing.empty();
  out.options.keep_end = recorded.value("truncation_mode", "") == "keep_end";
  out.options.assistant_only_loss = recorded.value("assistant_only_loss", false);
  if (recorded.contains("completion_only_loss"))
    out.options.completion_only_loss = recorded["completion_only_loss"].get<bool>();
  out.options.vocab_size = 400;
  return out;
}

PackedRecords packed_of(const Records& examples, const Asked& asked) {
  if (asked.packing == "bfd_split") return pack_bfd_split(examples, asked.max_length);
  if (asked.packing == "wrapped") return pack_wrapped(examples, asked.max_length);
  return {.records = examples,
          .rows = asked.packing == "bfd" ? pack_bfd(examples, asked.max_length) : no_packing(examples)};
}

Json row_of(const PackedRecords& packed, std::size_t row) {
  Json ids = Json::array(), labels = Json::array();
  for (const std::uint32_t member : packed.rows.members(row)) {
    const RecordView example = packed.records[member];
    for (std::size_t i = 0; i < example.ids.size(); ++i) {
      ids.push_back(example.ids[i]);
      labels.push_back(example.supervised[i] != 0 ? Json(example.label(i)) : Json(kIgnore));
    }
  }
  return {{"input_ids", ids}, {"labels", labels}};
}

// What TRL trains on in silence, and hone refuses: an option without what it is for.
bool refuses_alone(const Json& set, const Json& options) {
  const Json& row = set["rows"][0];
  return options.value("completion_only_loss", false) && !row.contains("labels") &&
         !row.contains("completion_mask");
}

TEST(TokenRowsGolden, EqualTrlsPreparedDatasets) {
  const Json recorded =
      base::parse_json(base::read_text(HONE_FIXTURES "/data/token_rows.json"), "token_rows.json");
  int compared = 0, refused = 0, alone = 0;
  for (const Json& set : recorded["sets"]) {
    std::string text;
    for (const Json& row : set["rows"]) text += base::dump_json(row) + "\n";
    const Rows rows = parse_rows(text, "d.jsonl", "text");
    EXPECT_EQ(rows.form, RowForm::kTokens);
    for (const Json& one : set["cases"]) {
      const std::string name = set["name"].get<std::string>() + " " + one["options"].dump();
      const Asked asked = asked_of(one["options"]);
      BlockTokenizer tokenizing(tiny(), &chatml(), asked.options);
      std::vector<Record> examples;
      try {
        tokenizing.add(rows, [&examples](Record example) { examples.push_back(std::move(example)); });
      } catch (const base::UserError& error) {
        alone += one.contains("refused") ? 0 : 1;
        EXPECT_TRUE(one.contains("refused") || refuses_alone(set, one["options"])) << name << error.what();
        ++refused;
        continue;
      }
      ASSERT_FALSE(one.contains("refused")) << name;
      const PackedRecords packed = packed_of(examples, asked);
      ASSERT_EQ(packed.rows.size(), one["rows"].size()) << name;
      for (std::size_t i = 0; i < packed.rows.size(); ++i) {
        const Json found = row_of(packed, i);
        EXPECT_EQ(found["input_ids"], one["rows"][i]["input_ids"]) << name << " row " << i;
        EXPECT_EQ(found["labels"], one["rows"][i]["labels"]) << name << " row " << i;
      }
      ++compared;
    }
  }
  EXPECT_EQ(compared + refused, 26 * 12);
  EXPECT_GT(compared, 200);
  EXPECT_GT(alone, 0);
}

}  // namespace token_rows_golden_test
}  // namespace hone::data
