// load_best_model_at_end, metric_for_best_model, greater_is_better, save_strategy best, and several evaluation sets.
#include "config/helpers.h"
#include "config/write_plan.h"

namespace hone::config {
namespace best_plan_test {

class BestPlan : public ConfigTest {
 protected:
  // With rows to evaluate, every 5 steps.
  std::vector<std::string> evaluated(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"--eval_dataset",  path("rows/test.jsonl"),
                                    "--eval_strategy", "steps",
                                    "--eval_steps",    "5",
                                    "--save_steps",    "10"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void expect_error(const std::vector<std::string>& more, const std::string& part) const {
    EXPECT_NE(run_error(evaluated(more)).find(part), std::string::npos) << run_error(evaluated(more));
  }
};

TEST_F(BestPlan, MetricAndDirectionAreTransformers) {
  EXPECT_TRUE(run().metric_for_best_model.empty());
  Plan plan = run(evaluated({"--load_best_model_at_end"}));
  EXPECT_TRUE(plan.load_best_model_at_end);
  EXPECT_EQ(plan.metric_for_best_model, "eval_loss");
  EXPECT_FALSE(plan.greater_is_better);
  plan = run(evaluated({"--metric_for_best_model", "mean_token_accuracy"}));
  EXPECT_EQ(plan.metric_for_best_model, "eval_mean_token_accuracy");
  EXPECT_TRUE(plan.greater_is_better);
  EXPECT_FALSE(
      run(evaluated({"--metric_for_best_model", "x", "--greater_is_better", "false"})).greater_is_better);
  EXPECT_EQ(run(evaluated({"--lr_scheduler_type", "reduce_lr_on_plateau"})).metric_for_best_model,
            "eval_loss");
  plan = run(evaluated({"--save_strategy", "best", "--metric_for_best_model", "loss"}));
  EXPECT_EQ(plan.save_strategy, IntervalStrategy::kBest);
}

TEST_F(BestPlan, PlanYamlGivesTheSamePlan) {
  const Plan plan = run(evaluated({"--load_best_model_at_end", "--output_dir", path("out")}));
  const std::string yaml = write("plan.yaml", write_plan(plan));
  const Plan again = parse_run(Method::kSft, {"--config", yaml});
  EXPECT_EQ(again.metric_for_best_model, plan.metric_for_best_model);
  EXPECT_EQ(again.load_best_model_at_end, plan.load_best_model_at_end);
}

TEST_F(BestPlan, EveryCheckpointMustBeEvaluated) {
  expect_error({"--load_best_model_at_end", "--save_strategy", "epoch"}, "the same save_strategy");
  expect_error({"--load_best_model_at_end", "--save_steps", "7"}, "a multiple of eval_steps");
  expect_error({"--load_best_model_at_end", "--save_steps", "0.5"}, "a multiple of eval_steps");
  EXPECT_TRUE(run(evaluated({"--load_best_model_at_end", "--save_steps", "0.6", "--eval_steps", "0.2"}))
                  .load_best_model_at_end);
  expect_error({"--save_strategy", "best"}, "metric_for_best_model with save_strategy: best");
  EXPECT_NE(run_error({"--save_strategy", "best", "--metric_for_best_model", "loss"}).find("an evaluation"),
            std::string::npos);
}

TEST_F(BestPlan, SeveralSetsHaveNames) {
  const std::string sets = "eval_strategy: steps\neval_steps: 5\nsave_steps: 5\neval_datasets:\n  math: " +
                           path("rows/test.jsonl") + "\n  code: [{path: " + path("rows") +
                           ", split: test}, {path: " + path("train.jsonl") + "}]\n";
  const Plan plan = run_yaml(sets);
  ASSERT_EQ(plan.eval_sets.size(), 2U);
  EXPECT_EQ(plan.eval_sets[0].name, "math");
  EXPECT_EQ(plan.eval_sets[0].rows.files().size(), 1U);
  EXPECT_EQ(plan.eval_sets[1].rows.files().size(), 2U);
  EXPECT_EQ(plan.eval_rows.files().size(), 3U);
  EXPECT_NE(yaml_error(sets + "load_best_model_at_end: true\n").find("eval_math_loss"), std::string::npos);
  EXPECT_EQ(run_yaml(sets + "load_best_model_at_end: true\nmetric_for_best_model: math_loss\n")
                .metric_for_best_model,
            "eval_math_loss");
  EXPECT_TRUE(run_yaml("eval_strategy: steps\neval_datasets: [{path: " + path("train.jsonl") + "}]\n")
                  .eval_sets.empty());
}

}  // namespace best_plan_test
}  // namespace hone::config
