// Memory and disk, planned before step 1.
#include "doctor/check_runs.h"

namespace hone::test_tools {
namespace probe_budget_test {

using base::Level;
using doctor::probe_budget;
using doctor::Verdicts;

class ProbeBudget : public CheckRuns {};

TEST_F(ProbeBudget, HealthyRunsFit) {
  for (const Verdicts& all : {probe_budget(*open_sft()), probe_budget(*open_grpo())}) {
    for (const char* code : {"MEM-01", "MEM-02", "CKPT-06"})
      EXPECT_EQ(verdict_of(all, code).level, Level::kOk) << code;
  }
}

TEST_F(ProbeBudget, ALevelThatDoesNotFitIsRepairedByAnother) {
  const auto found =
      verdict_of(probe_budget(*open_sft({"--recompute", "none", "--memory_limit", "1MB"})), "MEM-01");
  EXPECT_EQ(found.level, Level::kFail);
  EXPECT_SAYS(found.what, "more than the 0.00 GB of memory_limit");
  ASSERT_EQ(found.repair.size(), 1U);
  EXPECT_EQ(found.repair[0].first, "recompute");
  expect_complete({found});
}

TEST_F(ProbeBudget, AGiantRowIsNamed) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += R"({"text": ")" + std::string(i == 39 ? 450 : 4, 'z') + "\"}\n";
  const std::string data = file("giant.jsonl", text);
  EXPECT_EQ(
      verdict_of(probe_budget(*open_sft({"--dataset_name", data, "--max_length", "null"})), "MEM-02").level,
      Level::kWarn);
  EXPECT_EQ(verdict_of(probe_budget(*open_sft({"--dataset_name", data})), "MEM-02").level, Level::kOk);
}

TEST_F(ProbeBudget, CheckpointsThatDoNotFitTheDiskAreFound) {
  const Words many = {"--max_steps", "900000000", "--save_steps", "1"};
  const auto found = verdict_of(probe_budget(*open_sft(many)), "CKPT-06");
  EXPECT_EQ(found.level, Level::kFail);
  EXPECT_SAYS(found.fix, "save_total_limit: ");
  expect_complete({found});
  Words few = many;
  few.insert(few.end(), {"--save_total_limit", "2"});
  EXPECT_EQ(verdict_of(probe_budget(*open_sft(few)), "CKPT-06").level, Level::kOk);
}

}  // namespace probe_budget_test
}  // namespace hone::test_tools
