// DATA-11: rows to evaluate that are training rows, of each kind of data.
#include "doctor/check_runs.h"
#include "doctor/checks/check_parts.h"

namespace hone::test_tools {
namespace check_evaluation_test {

using base::Level;
using doctor::check_evaluation;

class CheckEvaluation : public CheckRuns {
 protected:
  std::string lines(const std::string& name, const std::string& before, int first, int count,
                    const std::string& after) {
    std::string text;
    for (int i = first; i < first + count; ++i) text += before + std::to_string(i) + after + "\n";
    return file(name, text);
  }
};

TEST_F(CheckEvaluation, SaysNothingWithoutAnEvaluation) {
  EXPECT_TRUE(check_evaluation(*open_sft()).empty());
}

TEST_F(CheckEvaluation, CountsRowsOfTheTrainingData) {
  const auto text = [&](const char* name, int first, int count) {
    return lines(name, R"({"text": "row )", first, count, R"("})");
  };
  const auto verdict = [&](int first, int count) {
    return verdict_of(check_evaluation(*open_sft({"--dataset_name", text("train.jsonl", 100, 200),
                                                  "--eval_dataset", text("eval.jsonl", first, count)})),
                      "DATA-11");
  };
  EXPECT_EQ(verdict(300, 20).level, Level::kOk);
  EXPECT_EQ(verdict(298, 300).level, Level::kNote) << "2 of 300";
  const base::Verdict some = verdict(295, 20);
  EXPECT_EQ(some.level, Level::kWarn);
  EXPECT_EQ(some.what, "5 of 20 rows to evaluate are in the training data too");
  EXPECT_EQ(some.evidence, "the same tokens; the first is eval.jsonl:1");
  EXPECT_EQ(verdict(100, 200).cause, "suspected: the evaluation file is a part of the training file");
}

TEST_F(CheckEvaluation, OfPairsComparesPromptAndChosen) {
  const auto pairs = [&](const char* name, const char* rejected, int first) {
    return lines(name, R"({"prompt": "say ", "chosen": ")", first, 10,
                 std::string(R"(", "rejected": ")") + rejected + "\"}");
  };
  const auto verdict = [&](int first) {
    return verdict_of(check_evaluation(*open_dpo({"--dataset_name", pairs("train.jsonl", "no", 10),
                                                  "--eval_dataset", pairs("eval.jsonl", "never", first)})),
                      "DATA-11");
  };
  EXPECT_EQ(verdict(10).what, "10 of 10 rows to evaluate are in the training data too");
  EXPECT_EQ(verdict(20).level, Level::kOk);
}

TEST_F(CheckEvaluation, OfAMethodThatSamplesComparesPrompts) {
  const auto prompts = [&](const char* name, int first) {
    return lines(name, R"({"prompt": "count to )", first, 8, R"("})");
  };
  const auto verdict = [&](int first) {
    return verdict_of(
        check_evaluation(*open_grpo({"--dataset_name", prompts("train.jsonl", 10), "--eval_dataset",
                                     prompts("eval.jsonl", first), "--eval_strategy", "steps"})),
        "DATA-11");
  };
  const base::Verdict some = verdict(14);
  EXPECT_EQ(some.what, "4 of 8 prompts to evaluate are in the training data too");
  EXPECT_NE(some.evidence.find("eval.jsonl:1"), std::string::npos) << some.evidence;
  EXPECT_EQ(verdict(18).level, Level::kOk);
}

}  // namespace check_evaluation_test
}  // namespace hone::test_tools
