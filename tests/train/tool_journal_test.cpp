// What tools answered, kept for a run that goes on: found again, and taken out once no run can need it.
#include "train/batches/tool_journal.h"

#include <gtest/gtest.h>

#include <set>

#include "base/helpers.h"
#include "base/json.h"

namespace hone::train {
namespace tool_journal_test {

ToolCall call_of(std::uint64_t generation) {
  return {.name = "search",
          .arguments = {{"q", generation}},
          .result = "page " + std::to_string(generation),
          .failed = false,
          .seconds = 0.5};
}

class ToolJournalTest : public testing::Test {
 protected:
  ToolJournal open(bool resumes, std::uint64_t first) const {
    return ToolJournal({.output_dir = folder_.path(), .resumes = resumes}, first);
  }
  static void write(ToolJournal& to, std::uint64_t generation) {
    to.write({.generation = generation, .sample = 1}, call_of(generation));
    to.write({.generation = generation, .sample = 2}, call_of(generation));
  }
  static bool has(const ToolJournal& journal, std::uint64_t generation) {
    const auto found = journal.find({.generation = generation, .sample = 2}, call_of(generation));
    return found && found->result == "page " + std::to_string(generation);
  }
  // Of the lines of the file.
  std::multiset<std::uint64_t> generations() const {
    std::multiset<std::uint64_t> out;
    const std::string text = base::read_text(file());
    for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
      out.insert(base::Json::parse(text.substr(begin, end - begin)).at("call").at(0).get<std::uint64_t>());
    return out;
  }
  base::fs::path file() const { return folder_ / ".hone-tools-0.jsonl"; }

  base::TempFolder folder_;
};

TEST_F(ToolJournalTest, EarlierBatchesAreTakenOut) {
  ToolJournal journal = open(false, 0);
  for (const std::uint64_t generation : {0, 1, 2, 3}) write(journal, generation);
  journal.trim(2);
  EXPECT_EQ(generations(), (std::multiset<std::uint64_t>{2, 2, 3, 3}));
  write(journal, 4);  // behind them
  journal.trim(2);
  EXPECT_EQ(generations(), (std::multiset<std::uint64_t>{2, 2, 3, 3, 4, 4}));
  const ToolJournal later = open(true, 2);
  EXPECT_FALSE(has(later, 1));
  for (const std::uint64_t generation : {2, 3, 4}) EXPECT_TRUE(has(later, generation));
}

TEST_F(ToolJournalTest, AFileThatCannotBeReadStaysAndTheRunGoesOn) {
  ToolJournal journal = open(false, 0);
  write(journal, 0);
  base::fs::remove(file());
  journal.trim(1);
  write(journal, 1);
  EXPECT_EQ(generations(), (std::multiset<std::uint64_t>{1, 1}));
}

}  // namespace tool_journal_test
}  // namespace hone::train
