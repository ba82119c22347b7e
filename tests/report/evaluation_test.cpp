// The page shows what lm-eval found, as a table and as a file.
#include "report/page/evaluation.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/scratch_folder.h"

namespace hone::report {
namespace evaluation_test {

using base::Json;

const std::vector<EvaluationRow>& rows() {
  static const std::vector<EvaluationRow> all = {
      {.task = "arc_easy", .metric = "acc", .filter = "", .shots = 0, .value = 0.5, .error = 0.0102},
      {.task = "gsm8k",
       .metric = "exact_match",
       .filter = "strict-match",
       .shots = 5,
       .value = 0.25,
       .error = {}}};
  return all;
}

TEST(Evaluation, RowsOfLmEval) {
  const Json results = Json::parse(R"({
    "results": {
      "arc_easy": {"alias": "arc_easy", "acc,none": 0.5, "acc_stderr,none": 0.0102, "sample_len": 12},
      "gsm8k": {"alias": "gsm8k", "exact_match,strict-match": 0.25, "exact_match_stderr,strict-match": "N/A"}},
    "n-shot": {"arc_easy": 0, "gsm8k": 5}})");
  EXPECT_EQ(rows_of_lm_eval(results, "lm-eval"), rows());
  for (const char* other :
       {"{}", "[]", "null", R"({"results": {"a": {"acc,none": "N/A"}}})", R"({"results": 5})"})
    EXPECT_THROW(rows_of_lm_eval(Json::parse(other), "lm-eval"), base::UserError) << other;
}

TEST(Evaluation, ATableInColumns) {
  EXPECT_EQ(evaluation_table(rows()),
            "task      shots  metric                      value   error\n"
            "arc_easy  0      acc                         0.5000  0.0102\n"
            "gsm8k     5      exact_match (strict-match)  0.2500");
}

TEST(Evaluation, AFileIsReadAsItWasWritten) {
  const base::ScratchFolder folder("evaluation");
  EXPECT_FALSE(read_evaluation(folder.path()).has_value());
  const Evaluation one{
      .model = "models/tiny", .harness = "lm-eval 0.4.13", .time = 1764000000, .rows = rows()};
  write_evaluation(folder.path(), one);
  EXPECT_EQ(read_evaluation(folder.path()), one);
  for (const char* damaged :
       {"", "{", "[]", R"({"format": "hone-evaluation-1", "rows": [5], "time": "x"})"}) {
    base::write_file_atomic(folder.path() / kEvaluationFile, damaged);
    read_evaluation(folder.path());  // whatever it is, the page is made
  }
}

}  // namespace evaluation_test
}  // namespace hone::report
