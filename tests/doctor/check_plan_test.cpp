// Each class of fault that options alone show, planted and not planted.
#include "doctor/check_runs.h"
#include "train/methods/methods.h"

namespace hone::test_tools {
namespace check_plan_test {

using base::Level;
using doctor::check_plan;
using doctor::Verdicts;

class CheckPlan : public CheckRuns {};

TEST_F(CheckPlan, HealthyRunsHaveNoFault) {
  for (const Verdicts& all : {check_plan(*open_sft()), check_plan(*open_grpo())}) {
    EXPECT_EQ(failures(all), "");
    expect_complete(all);
    for (const char* code :
         {"NUM-03", "NUM-08", "NUM-09", "GRAD-01", "GRAD-06", "GRAD-07", "RL-16", "ENV-01"})
      EXPECT_EQ(verdict_of(all, code).level, Level::kOk) << code << " " << verdict_of(all, code).what;
  }
  const Verdicts all = check_plan(*open_grpo());
  for (const char* code : {"PREF-03", "RL-13", "GRAD-03"})
    EXPECT_EQ(verdict_of(all, code).level, Level::kOk) << code;
}

TEST_F(CheckPlan, AFullFineTuningRateIsTooLowForAdapters) {
  const auto rate = [&](const char* value) {
    return verdict_of(check_plan(*open_grpo({"--learning_rate", value})), "NUM-08");
  };
  for (const char* low : {"5e-7", "1e-6"}) {
    EXPECT_EQ(rate(low).level, Level::kWarn) << low;
    EXPECT_SAYS(rate(low).fix, "learning_rate: 0.0001");
    expect_complete({rate(low)});
  }
  EXPECT_EQ(rate("1e-5").level, Level::kOk);
  EXPECT_EQ(rate("0.5").level, Level::kWarn);
  const auto ranked =
      check_plan(*open_sft({"--learning_rate", "1e-3", "--lora_r", "256", "--lora_alpha", "4096"}));
  EXPECT_EQ(verdict_of(ranked, "NUM-08").level, Level::kWarn);
}

// Of rate, rank and scale the unusual one is named, with its own cure.
TEST_F(CheckPlan, TheUnusualOfRateRankAndScaleIsNamed) {
  const auto found = [&](const Words& words) { return verdict_of(check_plan(*open_sft(words)), "NUM-08"); };
  struct Case {
    Words words;
    Level level;
    const char *what, *fix;
  };
  const std::vector<Case> cases = {
      {{"--lora_r", "64", "--lora_alpha", "1"},
       Level::kWarn,
       "lora_alpha 1 with lora_r 64",
       "lora_alpha: 128"},
      {{"--lora_r", "16", "--lora_alpha", "1000"},
       Level::kWarn,
       "lora_alpha 1000 with lora_r 16",
       "lora_alpha: 32"},
      {{"--lora_r", "64", "--lora_alpha", "1000"}, Level::kWarn, "unusually large", "lora_alpha: 128"},
      {{"--lora_r", "8", "--lora_alpha", "1"}, Level::kWarn, "unusually small", "lora_alpha: 16"},
      {{"--lora_r", "2048", "--lora_alpha", "16"}, Level::kWarn, "lora_r 2048", "lora_r: 16"},
      {{"--lora_r", "256", "--lora_alpha", "256", "--use_rslora", "true"},
       Level::kWarn,
       "use_rslora",
       "use_rslora: false"},
      {{"--learning_rate", "1e-1"}, Level::kWarn, "learning_rate 0.1 with LoRA", "learning_rate: 0.0002"},
      {{"--learning_rate", "1e-7", "--lora_alpha", "1", "--lora_r", "64"},
       Level::kWarn,
       "learning_rate 1e-07 is unusual too",
       "learning_rate: 0.0002"},
      {{"--learning_rate", "1e-6"}, Level::kWarn, "learning_rate 1e-06", "learning_rate: 0.0002"},
  };
  for (const Case& one : cases) {
    const auto verdict = found(one.words);
    EXPECT_EQ(verdict.level, one.level) << verdict.what;
    EXPECT_SAYS(verdict.what, one.what);
    EXPECT_SAYS(verdict.fix, one.fix);
    expect_complete({verdict});
  }
  EXPECT_SAYS(found({"--lora_r", "64", "--lora_alpha", "1"}).not_this, "learning_rate: 0.0002 is usual");
  EXPECT_EQ(found({"--lora_r", "64", "--lora_alpha", "1"}).fix.find("learning_rate"), std::string::npos);
  // What is published and usual.
  for (const Words& usual :
       std::vector<Words>{{"--lora_r", "1", "--lora_alpha", "32"},
                          {"--lora_r", "1", "--lora_alpha", "1"},
                          {"--lora_r", "256", "--lora_alpha", "16"},
                          {"--lora_r", "128", "--lora_alpha", "256"},
                          {"--lora_r", "64", "--lora_alpha", "16"},
                          {"--lora_r", "64", "--lora_alpha", "16", "--use_rslora", "true"},
                          {"--lora_r", "16", "--lora_alpha", "32", "--use_dora", "true"}})
    EXPECT_EQ(found(usual).level, Level::kOk) << usual[1] << " " << usual[3] << ": " << found(usual).what;
  const auto dpo = [&](const Words& words) { return verdict_of(check_plan(*open_dpo(words)), "NUM-08"); };
  EXPECT_EQ(dpo({"--learning_rate", "5e-6"}).level, Level::kOk);
  EXPECT_SAYS(dpo({"--learning_rate", "5e-6", "--lora_alpha", "1", "--lora_r", "64"}).fix, "lora_alpha: 128");
  EXPECT_SAYS(dpo({"--learning_rate", "2e-8"}).fix, "learning_rate: 2e-05");
}

TEST_F(CheckPlan, TheScheduleIsHeldAgainstTheSteps) {
  const auto schedule = [&](const Words& words) {
    return verdict_of(check_plan(*open_sft(words)), "NUM-09");
  };
  const auto half = schedule({"--warmup_steps", "25"});
  EXPECT_EQ(half.level, Level::kWarn) << "TRL trains it too";
  EXPECT_SAYS(half.what, "25 of 40 optimizer steps are warm-up");
  EXPECT_SAYS(half.evidence, "learning rate 0 at 0 %");
  const auto unending = schedule({"--warmup_steps", "60"});
  EXPECT_EQ(unending.level, Level::kWarn);
  EXPECT_SAYS(unending.what, "60 steps of warm-up for 40 optimizer steps");
  EXPECT_SAYS(unending.cause, "never reaches its peak");
  const auto nothing = schedule({"--warmup_steps", "1000"});
  EXPECT_EQ(nothing.level, Level::kFail);
  EXPECT_SAYS(nothing.cause, "no step has a tenth of learning_rate: the highest is 7.8e-06");
  EXPECT_EQ(schedule({"--warmup_steps", "0.1"}).level, Level::kOk);
  EXPECT_EQ(schedule({"--learning_rate", "0"}).level, Level::kFail);
}

TEST_F(CheckPlan, AShortTrialIsNoFailure) {
  const auto schedule = [&](const Words& words) {
    return verdict_of(check_plan(*open_sft(words)), "NUM-09");
  };
  for (const char* steps : {"1", "4", "19"})
    EXPECT_EQ(schedule({"--max_steps", steps}).level, Level::kNote) << steps;
  EXPECT_EQ(schedule({"--max_steps", "4", "--warmup_steps", "10"}).level, Level::kWarn);
  EXPECT_EQ(schedule({"--max_steps", "1", "--warmup_steps", "1"}).level, Level::kWarn);
  // Nobody asked for so few.
  const auto few = schedule({"--max_steps", "-1", "--num_train_epochs", "1"});
  EXPECT_EQ(few.level, Level::kWarn);
  EXPECT_SAYS(few.what, "only 5 optimizer steps");
}

TEST_F(CheckPlan, DropoutIsNamedWhereLogProbabilitiesAreCompared) {
  const auto found = verdict_of(check_plan(*open_grpo({"--lora_dropout", "0.1"})), "PREF-03");
  EXPECT_EQ(found.level, Level::kWarn);
  EXPECT_FALSE(found.repair.empty());
  const auto usual = verdict_of(check_plan(*open_grpo({"--lora_dropout", "0.05"})), "PREF-03");
  EXPECT_EQ(usual.level, Level::kNote) << "TRL's default";
  EXPECT_TRUE(usual.repair.empty());
  EXPECT_EQ(
      verdict_of(check_plan(*open_grpo({"--lora_dropout", "0.05", "--disable_dropout", "true"})), "PREF-03")
          .level,
      Level::kOk);
  EXPECT_EQ(verdict_of(check_plan(*open_sft({"--lora_dropout", "0.05"})), "PREF-03").code, "");
}

TEST_F(CheckPlan, ReentrantCheckpointingCannotCutTheGradientHere) {
  const auto found =
      verdict_of(check_plan(*open_grpo({"--gradient_checkpointing", "true", "--gradient_checkpointing_kwargs",
                                        R"({"use_reentrant": true})"})),
                 "GRAD-01");
  EXPECT_EQ(found.level, Level::kOk);
  EXPECT_SAYS(found.what, "impossible here (hand-written backward)");
  EXPECT_SAYS(found.what, "use_reentrant");
  EXPECT_SAYS(verdict_of(check_plan(*open_sft({"--layer_form", "plain"})), "GRAD-01").what,
              "impossible here");
}

TEST_F(CheckPlan, ALargePartWithoutAdaptersIsNamed) {
  const std::string model = changed_model(
      [](base::Json& config, std::map<std::string, at::Tensor>*) { config["intermediate_size"] = 400; });
  const auto found = [&](const char* targets) {
    return verdict_of(
        check_plan(*open_sft({"--model_name_or_path", model, "--lora_target_modules", targets})), "GRAD-06");
  };
  EXPECT_EQ(found(".*q_proj").level, Level::kWarn);
  EXPECT_SAYS(found(".*q_proj").what, "MLP");
  EXPECT_EQ(found(".*down_proj").level, Level::kOk);
  const auto few =
      verdict_of(check_plan(*open_sft({"--lora_target_modules", ".*0.self_attn.k_proj"})), "GRAD-06");
  EXPECT_EQ(few.level, Level::kWarn);
  EXPECT_SAYS(few.what, "3.3 % of the layers' parameters");
  EXPECT_EQ(found("all-linear").level, Level::kOk);
}

// PEFT reaches Granite's experts by lora_target_parameters only.
TEST_F(CheckPlan, ExpertsWithoutAdaptersAreNamedAsTheyCanBeReached) {
  const auto found = [&](const char* model, const char* targets, const char* parameters) {
    Words words = {"--model_name_or_path",   (kParity / model).string(),
                   "--lora_target_modules",  targets,
                   "--router_aux_loss_coef", "0",
                   "--lora_dropout",         "0"};
    if (parameters != nullptr) words.insert(words.end(), {"--lora_target_parameters", parameters});
    return verdict_of(check_plan(*open_sft(words)), "GRAD-06");
  };
  const auto granite = found("tiny_granitemoe", "all-linear", nullptr);
  EXPECT_EQ(granite.level, Level::kWarn);
  EXPECT_SAYS(granite.fix, "lora_target_parameters: [experts.gate_up_proj, experts.down_proj]");
  EXPECT_EQ(granite.fix.find("all-linear"), std::string::npos) << granite.fix;
  EXPECT_EQ(found("tiny_granitemoe", "all-linear", "experts.gate_up_proj").level, Level::kOk);
  const auto mixtral = found("tiny_mixtral", ".*q_proj", nullptr);
  EXPECT_EQ(mixtral.level, Level::kWarn);
  EXPECT_SAYS(mixtral.fix, "all-linear, or add gate, w1, w3, w2, with lora_dropout: 0");
  EXPECT_EQ(found("tiny_mixtral", "all-linear", nullptr).level, Level::kOk);
}

// The LoRA on gate_up_proj has twice the rank of the others.
TEST_F(CheckPlan, TheRateIsHeldAgainstTheLoraOnExpertsToo) {
  const auto found = [&](const char* targets, const char* rate) {
    const auto run =
        open_sft({"--model_name_or_path", (kParity / "tiny_qwen3_moe").string(), "--lora_target_modules",
                  targets, "--lora_dropout", "0", "--learning_rate", rate});
    return verdict_of(check_plan(*run), "NUM-08");
  };
  EXPECT_SAYS(found("all-linear", "2e-4").what, "rank 32 and scale 2 of gate_up_proj");
  EXPECT_EQ(found("all-linear", "2e-4").level, Level::kOk);
  EXPECT_SAYS(found(".*q_proj", "2e-4").what, "rank 16 and scale 2");
  const double most = train::method_opening(config::Method::kSft).rates.most;
  const std::string near = std::to_string(most * 0.9);
  EXPECT_EQ(found(".*q_proj", near.c_str()).level, Level::kOk);
  EXPECT_EQ(found("all-linear", near.c_str()).level, Level::kWarn);
}

TEST_F(CheckPlan, AnswersThatDoNotFitACompletionAreFoundBeforeSampling) {
  const std::string data =
      rows(R"({"prompt": "How many?", "answer": "first this, then that #### 123456789"})", 20);
  const auto found = [&](const char* cap, const char* reward = "exact_match(column=answer)") {
    return verdict_of(check_plan(*open_grpo({"--dataset_name", data, "--max_completion_length", cap,
                                             "--reward_funcs", reward})),
                      "RL-03");
  };
  EXPECT_EQ(found("2").level, Level::kFail);
  EXPECT_EQ(found("2", "length(target=2)").level, Level::kWarn) << "a reward that does not need the answer";
  EXPECT_SAYS(found("2").fix, "max_completion_length: ");
  EXPECT_EQ(found("16").level, Level::kWarn);
  EXPECT_EQ(found("128").level, Level::kOk);
  EXPECT_EQ(verdict_of(check_plan(*open_grpo()), "RL-03").code, "");  // no answers in the data
  // One row whose answer fits: most of the rewards are lost, not all.
  const std::string mixed =
      file("mixed.jsonl", base::read_text(data) + R"({"prompt": "How many?", "answer": "1"})" + "\n");
  const auto run = open_grpo({"--dataset_name", mixed, "--max_completion_length", "2"});
  EXPECT_EQ(verdict_of(check_plan(*run), "RL-03").level, Level::kWarn);
}

TEST_F(CheckPlan, TheDenominatorIsSaid) {
  const auto what = [&](const Words& words) {
    return verdict_of(check_plan(*open_grpo(words)), "RL-13").what;
  };
  EXPECT_SAYS(what({}), "dapo: divided by the scored tokens");
  EXPECT_SAYS(what({"--loss_type", "dr_grpo"}), "max_completion_length");
  EXPECT_SAYS(what({"--loss_type", "gmpo"}), "gmpo: the geometric mean of each completion's ratios");
  EXPECT_SAYS(what({"--loss_type", "gmpo", "--mask_truncated_completions", "true"}),
              "truncated ones count as empty");
  EXPECT_SAYS(what({"--mask_truncated_completions", "true"}), "tokens of truncated ones do not");
}

TEST_F(CheckPlan, ADeepSpeedKeyIsAnswered) {
  const auto run = open_grpo({"--deepspeed", R"({"zero_optimization": {"stage": 2}})"});
  ASSERT_FALSE(run->plan.notes.empty());
  EXPECT_SAYS(run->plan.notes.front(), "deepspeed: each key is read");
}

}  // namespace check_plan_test
}  // namespace hone::test_tools
