// Small runs of other trainers: hone's tokens and trained positions of each row beside those of the trainer's own code
// (tests/parity/record_trainer_masks.py). Where hone does otherwise, it says so by name.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/file.h"
#include "base/helpers.h"
#include "config/others_helpers.h"
#include "config/parse.h"
#include "data/files/row_source.h"
#include "train/methods/methods.h"
#include "train/notes/row_exam.h"
#include "train/opening/open_model.h"
#include "train/opening/record_opening.h"

namespace hone::train {
namespace trainer_masks_test {

using base::Json;

// The small tokenizer with the marks of the trainers' templates, as tests/parity/masks/common.py makes it.
void make_model(const base::fs::path& folder, const Json& tokens) {
  const std::string source = std::string(HONE_FIXTURES) + "/parity/tiny_llama/";
  base::fs::create_directory(folder);
  for (const char* name : {"tokenizer_config.json", "config.json"})
    base::put(folder / name, base::read_text(source + name));
  Json tokenizer = base::parse_json(base::read_text(source + "tokenizer.json"), "tokenizer.json");
  std::int64_t next = 0;
  for (const Json& one : tokenizer["added_tokens"]) next = std::max(next, one["id"].get<std::int64_t>() + 1);
  for (const Json& token : tokens)
    tokenizer["added_tokens"].push_back({{"id", next++},
                                         {"content", token},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false},
                                         {"special", true}});
  base::put(folder / "tokenizer.json", tokenizer.dump());
}

// The first token is never trained: nothing predicts it.
Json row_of(std::span<const std::int32_t> ids, std::span<const std::uint8_t> trained) {
  Json ranges = Json::array();
  for (std::size_t at = 0; at < ids.size();) {
    std::size_t end = at;
    while (end < ids.size() && trained[end] == trained[at]) ++end;
    if (trained[at] != 0 && end > 1) ranges.push_back({std::max<std::size_t>(at, 1), end});
    at = end;
  }
  return {{"ids", Json(std::vector<std::int32_t>(ids.begin(), ids.end()))}, {"trained", ranges}};
}

Json sequence_of(const data::Record& record, data::Part part) {
  const data::ScoredSequence one = view(record).sequence(part);
  std::vector<std::int32_t> ids(one.context.begin(), one.context.end());
  ids.insert(ids.end(), one.scored.begin(), one.scored.end());
  std::vector<std::uint8_t> trained(ids.size(), 1);
  std::fill_n(trained.begin(), one.context.size(), std::uint8_t{0});
  return row_of(ids, trained);
}

Json json_of(const data::Record& record, bool pairs) {
  if (!pairs) return row_of(record.ids, record.supervised);
  return {{"chosen", sequence_of(record, data::Part::kChosen)},
          {"rejected", sequence_of(record, data::Part::kRejected)}};
}

struct Resolved {
  Json rows;         // what hone would train; null: it stops
  std::string said;  // findings of the file, notes of the rows, and why it stops
};

Json rows_of(const config::Plan& plan) {
  const OpenedText opened = open_text(plan, tokenizer_of_run(plan));
  std::vector<std::string> notes;
  const auto training = open_training_template(plan, opened, notes);
  const RecordMaking making =
      method_opening(plan.method).records->making(row_text(plan, opened, training.get(), 0));
  const auto pass =
      making.begin(data::RowSource(rows_for(opened.tokenizer, plan, plan.train_rows)), making.block);
  const bool pairs = plan.method == config::Method::kDpo;
  Json out = Json::array();
  data::RecordWriter writer;
  while (pass->next([&](const data::Record& record) {
    if (making.pack)
      writer.add(view(record));
    else
      out.push_back(json_of(record, pairs));
  })) {
  }
  if (!making.pack) return out;
  const data::RecordBlock packed = making.pack(writer.finish());
  for (std::size_t row = 0; row < packed.rows.size(); ++row) {
    std::vector<std::int32_t> ids;
    std::vector<std::uint8_t> trained;
    for (const std::uint32_t index : packed.rows.members(row)) {
      const data::RecordView one = packed.records[index];
      ids.insert(ids.end(), one.ids.begin(), one.ids.end());
      trained.insert(trained.end(), one.supervised.begin(), one.supervised.end());
    }
    out.push_back(row_of(ids, trained));
  }
  return out;
}

Resolved resolved(const Json& files, const base::TempFolder& folder) {
  std::string run_file;
  for (const auto& [name, text] : files.items()) {
    std::string written = text.get<std::string>();
    for (const auto& [mark, path] : {std::pair{std::string("MODEL"), (folder / "model").string()},
                                     std::pair{std::string("ROWS"), (folder / "rows.json").string()}}) {
      for (std::size_t at = 0; (at = written.find(mark, at)) != std::string::npos; at += path.size())
        written.replace(at, mark.size(), path);
    }
    base::put(folder / name, written);
    if (name.starts_with("run.")) run_file = folder / name;
  }
  const config::OtherRun run = config::other_run(base::read_text(run_file), run_file);
  Resolved out{.rows = {}, .said = config::findings_of(run)};
  if (!run.unknown.empty() || !run.refused.empty()) return out;
  try {
    out.rows = rows_of(config::parse_run_text(run.method, config::hone_file(run), "hone.yaml"));
  } catch (const base::UserError& error) {
    out.said += error.what();
  }
  return out;
}

void compare(const std::string& trainer, std::size_t least) {
  const std::string path = std::string(HONE_FIXTURES) + "/config/trainer_masks/" + trainer + ".json";
  const Json recorded = base::parse_json(base::read_text(path), path);
  std::size_t equal = 0;
  for (const auto& [name, one] : recorded["cases"].items()) {
    SCOPED_TRACE(name);
    const base::TempFolder folder;
    make_model(folder / "model", recorded["tokens"]);
    const Resolved found = resolved(one["files"], folder);
    if (!one.contains("told")) {
      EXPECT_EQ(found.rows.dump(), one["rows"].dump()) << found.said;
      ++equal;
      continue;
    }
    EXPECT_NE(found.rows, one["rows"]) << "hone does as the trainer: nothing is to be told";
    for (const Json& part : one["told"])
      EXPECT_NE(found.said.find(part.get<std::string>()), std::string::npos) << part << "\nis not in\n"
                                                                             << found.said;
  }
  EXPECT_GE(equal, least);
}

TEST(TrainerMasks, AreLlamaFactorys) {
  compare("llamafactory", 10);
}

TEST(TrainerMasks, AreAxolotls) {
  compare("axolotl", 15);
}

TEST(TrainerMasks, AreMsSwifts) {
  compare("swift", 16);
}

}  // namespace trainer_masks_test
}  // namespace hone::train
