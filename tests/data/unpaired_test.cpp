// What becomes of marked completions; that it is what TRL makes of them is tests/parity/trl_kto_test.
#include "data/forms/unpaired.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "data/pair_lists.h"

namespace hone::data {
namespace unpaired_test {

using Ids = std::vector<std::int32_t>;

class Unpaired : public testing::Test {
 protected:
  void TearDown() override { base::fs::remove(file_); }

  UnpairedRows rows(const std::string& text) const {
    std::ofstream(file_) << text;
    return read_unpaired_rows(file_);
  }
  UnpairedData prepare(const std::string& text, const UnpairedOptions& options = {}) const {
    return tokenize_unpaired(rows(text), tokenizer(), nullptr, options);
  }
  std::string error_of(const std::string& text, const UnpairedOptions& options = {}) const {
    try {
      prepare(text, options);
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "no error";
  }
  static const text::Tokenizer& tokenizer() {
    static const text::Tokenizer value =
        text::Tokenizer::from_folder(base::fs::path(HONE_FIXTURES) / "text" / "tiny");
    return value;
  }

  base::fs::path file_ =
      base::fs::temp_directory_path() / ("hone_unpaired_" + std::to_string(getpid()) + ".jsonl");
};

std::string row(const std::string& prompt, const std::string& completion, bool label) {
  return base::Json({{"prompt", prompt}, {"completion", completion}, {"label", label}}).dump() + "\n";
}

TEST_F(Unpaired, PairsBecomeRowsSideBySide) {
  const UnpairedRows found = rows(R"({"prompt": "p", "chosen": " a", "rejected": " b"})"
                                  "\n"
                                  R"({"prompt": "q", "chosen": " c", "rejected": " d"})");
  EXPECT_TRUE(found.paired);
  std::string all;
  for (const UnpairedRow& one : found.rows)
    all += one.prompt.get<std::string>() + one.completion.get<std::string>() + (one.desirable ? "+" : "-");
  EXPECT_EQ(all, "p a+q c+p b-q d-");
}

// TRL unpairs batches of a thousand rows, each on its own.
TEST_F(Unpaired, PairsAreTakenApartByTheThousand) {
  std::string text;
  for (int i = 0; i < 1001; ++i)
    text +=
        base::Json({{"prompt", "p"}, {"chosen", std::to_string(i)}, {"rejected", "r" + std::to_string(i)}})
            .dump() +
        "\n";
  const UnpairedRows found = rows(text);
  ASSERT_EQ(found.rows.size(), 2002U);
  EXPECT_EQ(found.rows[999].completion, "999");
  EXPECT_EQ(found.rows[1000].completion, "r0");
  EXPECT_EQ(found.rows[2000].completion, "1000");
  EXPECT_EQ(found.rows[2001].completion, "r1000");
}

// x1 y3, x2 y1, x3 y2 | x4 y4
TEST_F(Unpaired, CompletionsMoveOnByOneWithinABatch) {
  const UnpairedData data = prepare(
      row("one", " a", true) + row("two", " b", false) + row("three", " c", true) + row("four", " d", false),
      {.batch_size = 3});
  ASSERT_EQ(data.records.size(), 4U);
  const auto scored = [&](std::size_t i) { return listed(data.records[i]).first.scored; };
  EXPECT_EQ(listed(data.records[0]).second.scored, scored(2));
  EXPECT_EQ(listed(data.records[1]).second.scored, scored(0));
  EXPECT_EQ(listed(data.records[2]).second.scored, scored(1));
  EXPECT_EQ(listed(data.records[3]).second.scored, scored(3));
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(listed(data.records[i]).shares_context);
    EXPECT_EQ(data.records[i].desirable, i % 2 == 0);
  }
  EXPECT_EQ(data.facts.desirable, 2);
}

// A dropped row's completion goes nowhere; what is kept is cut, the exchanged completion at its own place.
TEST_F(Unpaired, LongRowsAreCutAndLongPromptsDropped) {
  const std::string text = row("a", " b", true) + row("a prompt that is far longer than that", " c", true) +
                           row("a", " one two three four five", false);
  const UnpairedData whole = prepare(text, {.batch_size = 3});
  const UnpairedData cut = prepare(text, {.max_length = 6, .batch_size = 3});
  EXPECT_EQ(cut.facts.prompts_too_long, 1);
  ASSERT_EQ(cut.records.size(), 2U);
  EXPECT_EQ(cut.facts.rows_cut, 1);
  EXPECT_EQ(listed(cut.records[1]).first.tokens(), 6);
  EXPECT_EQ(listed(cut.records[0]).second.scored, listed(cut.records[1]).first.scored);
  EXPECT_EQ(listed(cut.records[1]).second.scored, listed(whole.records[0]).first.scored);
}

TEST_F(Unpaired, WithoutAPromptTheFirstTokenIsContext) {
  const UnpairedData data = prepare(row("", "some words", true) + row("q", " a", false), {.batch_size = 2});
  const bool bos = !tokenizer().encode("", true).ids.empty();
  EXPECT_EQ(listed(data.records[0]).first.context.size(), 1U);
  EXPECT_EQ(listed(data.records[0]).first.completion,
            static_cast<std::int64_t>(listed(data.records[0]).first.scored.size()) + (bos ? 0 : 1));
}

TEST_F(Unpaired, BadRowsAreNamed) {
  const auto says = [&](const std::string& text, const std::string& part) {
    const std::string found = error_of(text);
    EXPECT_NE(found.find(part), std::string::npos) << part << "\nin: " << found;
  };
  const std::string good = row("q", " a", true);
  says(good + R"({"prompt": "q", "completion": " b"})", ":2");
  says(good + R"({"prompt": "q", "completion": " b", "labl": true})", "'label'");
  says(good + R"({"prompt": "q", "completion": " b", "label": "yes"})", "label");
  says(good + R"({"prompt": "q", "completion": null, "label": true})", "null");
  says(good + R"({"prompt": [{"role": "user", "content": "q"}], "completion": " b", "label": true})",
       ":2 prompt");
  says(
      R"({"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content": "b"}], "label": true})",
      "chat template");
  EXPECT_NE(error_of(good, {.max_length = 1}).find("DATA-01"), std::string::npos);
  EXPECT_NE(error_of(good, {.vocab_size = 5}).find("DATA-10"), std::string::npos);
}

}  // namespace unpaired_test
}  // namespace hone::data
