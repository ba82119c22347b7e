// report_to, the names of loggers that recipes have, and the options of the hub.
#include "config/derived/finish_report.h"

#include "base/helpers.h"
#include "config/commands/send_plans.h"
#include "config/helpers.h"
#include "config/write_plan.h"

namespace hone::config {
namespace finish_report_test {

using base::expect_says;
using base::Json;
using Words = std::vector<std::string>;
using FinishReport = ConfigTest;

TEST_F(FinishReport, ReportToNamesLoggers) {
  EXPECT_EQ(run({}).loggers, Words{});
  EXPECT_EQ(run({"--report_to", "none"}).loggers, Words{});
  const Plan two = run({"--report_to", "wandb", "tensorboard", "mlflow", "wandb"});
  EXPECT_EQ(two.loggers, (Words{"wandb", "mlflow"}));
  EXPECT_TRUE(two.tensorboard);
  EXPECT_FALSE(two.installed_loggers);
  const Plan all = run({"--report_to", "all"});
  EXPECT_EQ(all.loggers, (Words{"wandb", "trackio", "mlflow", "comet_ml", "swanlab"}));
  EXPECT_TRUE(all.tensorboard);
  EXPECT_TRUE(all.installed_loggers);
  EXPECT_EQ(run_yaml("report_to: [wandb]\n").loggers, Words{"wandb"});
  const Plan other = run({"--report_to", "neptune"});
  EXPECT_EQ(
      other.notes,
      Words{"report_to: neptune: hone sends to tensorboard, wandb, trackio, mlflow, comet_ml, swanlab"});
  expect_says(run_error({"--report_to", "wnadb"}), {"'wnadb'. Did you mean 'wandb'?"});
}

TEST_F(FinishReport, NamesOfRecipesBecomeVariables) {
  const Plan plan = run_yaml(
      "report_to: [wandb, mlflow]\nwandb_project: p\nwandb_entity: e\nwandb_run_group: g\nwandb_name: n\n"
      "mlflow_uri: http://host\nmlflow_experiment_name: x\n");
  EXPECT_EQ(plan.run_name, "n");
  EXPECT_EQ(logger_variables(plan),
            (std::vector<std::pair<std::string, std::string>>{{"WANDB_PROJECT", "p"},
                                                              {"WANDB_ENTITY", "e"},
                                                              {"WANDB_RUN_GROUP", "g"},
                                                              {"MLFLOW_TRACKING_URI", "http://host"},
                                                              {"MLFLOW_EXPERIMENT_NAME", "x"}}));
  const Plan idle = run({"--run_name", "first"});
  EXPECT_EQ(idle.notes,
            Words{"run_name: not used, no report_to is all, wandb, trackio, mlflow, comet_ml or swanlab"});
  expect_says(
      error_of([&] { run({"--report_to", "mlflow", "--mlflow_tracking_uri", "https://me:***@host"}); }),
      {"the whole address"});
}

TEST_F(FinishReport, TheConfigOfALoggerIsThePlanWithoutSecrets) {
  const Plan plan =
      run({"--report_to", "mlflow", "--mlflow_tracking_uri", "https://me:secret@host", "--learning_rate",
           "1e-4", "--push_to_hub", "--hub_token", "hf_abc", "--hub_private_repo", "true"});
  const Json settings = logger_settings(plan, plan_values(write_plan(plan)));
  EXPECT_EQ(settings["config"]["learning_rate"], Json(1e-4));
  EXPECT_EQ(settings["config"]["packing"], Json(false));
  EXPECT_EQ(settings["config"]["report_to"], Json(Words{"mlflow"}));
  EXPECT_EQ(settings["private"], Json(true));
  EXPECT_EQ(settings["run_name"], Json());
  EXPECT_EQ(settings["project"], Json("huggingface"));
  const std::string text = base::dump_json(settings);
  EXPECT_EQ(text.find("hf_abc"), std::string::npos);
  EXPECT_EQ(text.find("secret"), std::string::npos);
}

TEST_F(FinishReport, OptionsOfTheHub) {
  const Plan plan = run({"--push_to_hub", "--hub_model_id", "o/m", "--hub_strategy", "all_checkpoints",
                         "--hub_token", "hf_abc", "--hub_revision", "v1", "--hub_always_push"});
  EXPECT_TRUE(plan.push_to_hub);
  EXPECT_EQ(plan.hub_strategy, HubStrategy::kAllCheckpoints);
  EXPECT_EQ(plan.hub_token, "hf_abc");
  EXPECT_EQ(plan.hub_private_repo, std::nullopt);
  EXPECT_TRUE(plan.notes.empty()) << plan.notes[0];
  EXPECT_EQ(run({}).hub_strategy, HubStrategy::kEverySave);
  // A written plan has no token: that of the user's huggingface_hub is used.
  Plan again = parse_run_text(Method::kSft, write_plan(plan), "plan.yaml");
  EXPECT_EQ(again.hub_token, "");
  again.hub_token = plan.hub_token;
  EXPECT_EQ(again, plan);
  for (const char* wrong : {"a/b/c", "/b", "a/", "a b", ".a", "a..b", "a--b"}) {
    expect_says(run_error({"--push_to_hub", "--hub_model_id", wrong}), {"a repository of the hub", wrong});
  }
  expect_says(run_error({"--push_to_hub", "--hub_strategy", "sometimes"}), {"every_save"});
}

// hone log and hone push
TEST_F(FinishReport, SendingLaterTakesWhatTheRunSaid) {
  const Plan plan = grpo({"--reward_funcs", "tag_count", "--run_name", "first", "--wandb_entity", "e",
                          "--report_to", "wandb", "--python", "python-of-mine", "--hub_model_id", "o/m",
                          "--push_to_hub", "--hub_token", "hf_abc"});
  write("out/plan.yaml", write_plan(plan));
  write("out/metrics.jsonl", "{}\n");
  write("out/adapter_config.json", "{}");
  LogPlan log = parse_log({path("out"), "--to", "mlflow", "--project", "other"});
  EXPECT_EQ(log.run, path("out"));
  EXPECT_EQ(log.to, "mlflow");
  EXPECT_EQ(log.run_name, "first");
  EXPECT_EQ(log.wandb_entity, "e");
  EXPECT_EQ(log.project, "other");
  EXPECT_EQ(log.python, "python-of-mine");
  EXPECT_TRUE(log.log_completions);
  EXPECT_EQ(log.config["reward_funcs"], Json(Words{"tag_count"}));
  const PushPlan push = parse_push({path("out"), "--hub_revision", "v2"});
  EXPECT_EQ(push.hub_model_id, "o/m");
  EXPECT_EQ(push.hub_revision, "v2");
  EXPECT_EQ(push.hub_token, "");
  EXPECT_EQ(push.method, "grpo");
  EXPECT_EQ(push.python, "python-of-mine");
  write("out/checkpoint-5/adapter_config.json", "{}");
  EXPECT_EQ(parse_push({path("out/checkpoint-5")}).hub_model_id, "o/m");
  write("bare/adapter_config.json", "{}");
  EXPECT_EQ(parse_push({path("bare")}).method, "");
}

TEST_F(FinishReport, SendingLaterNeedsARun) {
  write("out/metrics.jsonl", "{}\n");
  expect_says(error_of([&] { parse_log({}); }), {"the folder of a run", "hone log RUN --to wandb"});
  expect_says(error_of([&] { parse_log({path("model"), "--to", "wandb"}); }), {"metrics.jsonl"});
  expect_says(error_of([&] { parse_log({path("out")}); }), {"--to one of wandb, trackio"});
  expect_says(error_of([&] { parse_log({path("out"), "--to", "wandbb"}); }), {"Did you mean 'wandb'?"});
  expect_says(error_of([&] { parse_push({path("out")}); }), {"adapter_config.json"});
  expect_says(error_of([&] { parse_push({path("nowhere")}); }), {"no such folder"});
  expect_says(error_of([&] { parse_push({path("adapter"), "--hub_model_id", "a b"}); }),
              {"a repository of the hub"});
}

}  // namespace finish_report_test
}  // namespace hone::config
