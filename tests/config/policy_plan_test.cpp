#include "config/methods/policy_plan.h"

#include <algorithm>
#include <map>

#include "config/helpers.h"
#include "config/option_table.h"
#include "config/write_plan.h"

namespace hone::config {
namespace policy_plan_test {

using PolicyPlanTest = ConfigTest;
using Words = std::vector<std::string>;

TEST_F(PolicyPlanTest, GrpoDefaultsAreTrls) {
  const Plan plan = grpo();
  Plan expected = expected_plan(Method::kGrpo);
  expected.learning_rate = 1e-6;
  expected.max_length = 0;
  expected.shuffle_dataset = true;
  expected.dataloader_drop_last = true;
  expected.policy.reward_funcs = {"accuracy_reward"};
  expected.policy.epsilon_high = 0.2;
  expected.resolved = plan.resolved;
  EXPECT_EQ(plan, expected);
  EXPECT_TRUE(plan.notes.empty());
}

TEST_F(PolicyPlanTest, RlooDefaultsAreTrls) {
  const Plan plan = policy(Method::kRloo);
  PolicyPlan expected;
  expected.num_generations = 2;
  expected.num_generations_eval = 2;
  expected.beta = 0.05;
  expected.epsilon_high = 0.2;
  expected.loss_type = "rloo";
  expected.importance_sampling_level = "sequence";
  expected.scale_rewards = "none";
  expected.reward_funcs = {"accuracy_reward"};
  EXPECT_EQ(plan.policy, expected);
  EXPECT_EQ(plan.learning_rate, 1e-6);
}

// Each supported option of the policies alone, with the smallest change to it.
const std::map<std::string, Words>& changes() {
  static const std::map<std::string, Words> all = {
      {"disable_dropout", {}},
      {"reward_model_name_or_path", {"MODEL"}},
      {"reward_funcs", {"think_format_reward"}},
      {"reward_weights", {"0.5"}},
      {"python", {"python3.12"}},
      {"reward_workers", {"3"}},
      {"probe_rewards", {"false"}},
      {"reward_by_group", {"true"}},
      {"reward_timeout", {"5"}},
      {"num_generations", {"4"}},
      {"num_generations_eval", {"4"}},
      {"generation_batch_size", {"16"}},
      {"steps_per_generation", {"2"}},
      {"num_iterations", {"2"}},
      {"shuffle_dataset", {"false"}},
      {"max_completion_length", {"64"}},
      {"temperature", {"0.7"}},
      {"top_p", {"0.9"}},
      {"top_k", {"20"}},
      {"min_p", {"0.05"}},
      {"repetition_penalty", {"1.1"}},
      {"generation_kwargs", {"{\"min_new_tokens\": 3}"}},
      {"chat_template_kwargs", {"{\"enable_thinking\": false}"}},
      {"cast_lm_head_to_fp32", {}},
      {"vllm_structured_outputs_regex", {"[0-9]+"}},
      {"share_prompt", {"false"}},
      {"kv_memory", {"1GB"}},
      {"drafts", {"auto"}},
      {"filter_groups", {}},
      {"max_num_gen_batches", {"5", "--filter_groups"}},
      {"replay", {"FILE"}},
      {"dump_rollouts", {}},
      {"beta", {"0.1"}},
      {"sync_ref_model", {"true", "--no_use_peft", "--beta", "0.1"}},
      {"ref_model_mixup_alpha", {"0.3"}},
      {"ref_model_sync_steps", {"7"}},
      {"epsilon", {"0.1"}},
      {"epsilon_high", {"0.28"}},
      {"mask_truncated_completions", {}},
      {"loss_type", {"grpo"}},
      {"importance_sampling_level", {"sequence"}},
      {"scale_rewards", {"batch"}},
      {"multi_objective_aggregation", {"normalize_then_sum"}},
      {"delta", {"2"}},
      {"sapo_temperature_neg", {"1.1"}},
      {"sapo_temperature_pos", {"1.1"}},
      {"vespo_k_pos", {"1"}},
      {"vespo_lambda_pos", {"1"}},
      {"vespo_k_neg", {"1"}},
      {"vespo_lambda_neg", {"1"}},
      {"use_bias_correction_kl", {"false"}},
      {"top_entropy_quantile", {"0.2"}},
      {"entropy_coef", {"0.01"}},
      {"use_adaptive_entropy", {}},
      {"entropy_coef_min", {"0.1"}},
      {"entropy_coef_max", {"0.5"}},
      {"entropy_coef_delta", {"0.1"}},
      {"entropy_target", {"1"}},
      {"off_policy_mask_threshold", {"0.5"}},
      {"vllm_importance_sampling_correction", {}},
      {"vllm_importance_sampling_mode", {"token_mask"}},
      {"vllm_importance_sampling_clip_max", {"2"}},
      {"vllm_importance_sampling_clip_min", {"0.5"}},
      {"vllm_importance_sampling_cap", {"2"}},
      {"normalize_advantages", {}},
      {"reward_clip_range", {"-1", "1"}},
      {"log_completions", {}},
      {"num_completions_to_print", {"4"}},
      {"log_unique_prompts", {}},
      {"system_prompt", {"Be brief."}},
      {"dataset_prompt_column", {"question"}},
      {"rows_without_prompt", {"problem"}},
      {"max_prompt_length", {"64"}},
      {"cosine_min_value_wrong", {"-1", "--reward_funcs", "cosine"}},
      {"cosine_max_value_wrong", {"-0.2", "--reward_funcs", "cosine"}},
      {"cosine_min_value_correct", {"0.2", "--reward_funcs", "cosine"}},
      {"cosine_max_value_correct", {"2", "--reward_funcs", "cosine"}},
      {"cosine_max_len", {"500", "--reward_funcs", "cosine"}},
      {"repetition_n_grams", {"4", "--reward_funcs", "repetition_penalty"}},
      {"repetition_max_penalty", {"-2", "--reward_funcs", "repetition_penalty"}},
      {"code_language", {"cpp", "--reward_funcs", "code_format"}},
      {"parallel_code_exec_per_proc", {"4", "--reward_funcs", "binary_code"}},
      {"max_tool_calling_iterations", {"3"}},
      {"tools", {"hone.tools.calculator"}},
      {"environment", {"shop=package.Shop", "shell=package.Shell"}},
      {"rollout", {"package:function"}},
      {"tool_workers", {"2"}},
      {"tool_timeout", {"5"}},
      {"max_tool_result_tokens", {"64"}},
      {"tool_failures_to_stop", {"2"}},
      {"tool_text_control_tokens", {"as_is"}},
      {"max_completion_len", {"64", "--reward_funcs", "soft_overlong_punishment"}},
      {"soft_punish_cache", {"8", "--reward_funcs", "soft_overlong_punishment"}},
  };
  return all;
}

TEST_F(PolicyPlanTest, EverySupportedOptionReachesThePlanAndComesBack) {
  const std::string rollouts = write("rollouts.jsonl", "{}\n");
  for (const Method method : {Method::kGrpo, Method::kRloo}) {
    Plan plain = policy(method);
    plain.resolved.clear();
    plain.notes.clear();
    for (const Option& row : method_schema(method).options) {
      const bool own = method_schema(Method::kSft).find(row.name) == nullptr ||
                       row.name == "shuffle_dataset" || row.name == "loss_type";
      if (row.option_class != OptionClass::kSupported || !own) continue;
      const std::string name(row.name);
      ASSERT_TRUE(changes().contains(name)) << "no case for " << name;
      Words more = {"--" + name};
      for (const std::string& word : changes().at(name)) {
        more.push_back(word == "MODEL" ? path("model") : word == "FILE" ? rollouts : word);
      }
      Plan changed = policy(method, more);
      EXPECT_EQ(parse_run_text(method, write_plan(changed), "plan.yaml"), changed) << name << "\n"
                                                                                   << write_plan(changed);
      changed.resolved.clear();
      changed.notes.clear();
      EXPECT_FALSE(changed == plain) << name << " does nothing";
    }
  }
}

TEST_F(PolicyPlanTest, TheDefaultPlanComesBack) {
  for (const Method method : {Method::kGrpo, Method::kRloo}) {
    const Plan plan = policy(method);
    EXPECT_EQ(parse_run_text(method, write_plan(plan), "plan.yaml"), plan) << write_plan(plan);
  }
  EXPECT_TRUE(write_plan(grpo()).starts_with("# hone grpo, resolved."));
  EXPECT_NE(write_plan(grpo()).find("\n# sampling\nnum_generations: 8\n"), std::string::npos);
}

TEST_F(PolicyPlanTest, AFileForVllmComesBackWithOneNoteForAllOfIt) {
  const std::string file = write("grpo.yaml",
                                 "reward_funcs:\n- accuracy_reward\n- \"regex(pattern=\\\"^a: b$\\\")\"\n"
                                 "reward_weights: [1, 0.5]\nscale_rewards: false\nuse_vllm: true\n"
                                 "vllm_mode: server\nvllm_server_port: 9000\nnum_generations: 4\n"
                                 "generation_kwargs:\n  stop_strings: [\"\\n\"]\n  eos_token_id: 7\n");
  Words words = arguments({"--config", file});
  const Plan plan = parse_run(Method::kGrpo, words);
  EXPECT_EQ(plan.policy.reward_funcs, (Words{"accuracy_reward", "regex(pattern=\"^a: b$\")"}));
  EXPECT_EQ(plan.policy.reward_weights, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(plan.policy.scale_rewards, "none");
  EXPECT_EQ(plan.policy.stop_strings, Words{"\n"});
  EXPECT_EQ(plan.policy.stop_token_ids, std::vector<std::int64_t>{7});
  EXPECT_FALSE(plan.policy.importance_sampling_correction) << "no vLLM, nothing to correct";
  EXPECT_EQ(
      plan.notes,
      (Words{"use_vllm: hone samples with the trainer's own weights: nothing is copied to another engine",
             "vllm_mode, vllm_server_port: read only by vLLM; hone samples with the trainer's own weights"}));
  EXPECT_EQ(parse_run_text(Method::kGrpo, write_plan(plan), "plan.yaml"), plan) << write_plan(plan);
}

TEST_F(PolicyPlanTest, TheGenerationBatchIsResolved) {
  const auto sizes = [&](const Words& more) {
    const PolicyPlan plan = grpo(more).policy;
    return std::pair(plan.generation_batch_size, plan.steps_per_generation);
  };
  EXPECT_EQ(sizes({}), std::pair(8L, 1L));
  EXPECT_EQ(sizes({"--gradient_accumulation_steps", "4"}), std::pair(32L, 4L));
  EXPECT_EQ(sizes({"--gradient_accumulation_steps", "4", "--steps_per_generation", "8"}), std::pair(64L, 8L));
  EXPECT_EQ(sizes({"--generation_batch_size", "24"}), std::pair(24L, 3L));
  EXPECT_EQ(sizes({"--generation_batch_size", "24", "--steps_per_generation", "3"}), std::pair(24L, 3L))
      << "plan.yaml has both";
  EXPECT_EQ(sizes({"--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "4"}),
            std::pair(8L, 4L));
}

TEST_F(PolicyPlanTest, BatchesThatHoldNoWholeGroups) {
  EXPECT_EQ(grpo_error({"--generation_batch_size", "24", "--steps_per_generation", "2"}),
            "[--generation_batch_size] expected either generation_batch_size or steps_per_generation\n"
            "  found:  24 and 2, with per_device_train_batch_size 8\n"
            "  likely: 2 steps of 8 completions are 16\n"
            "  do:     remove one of the two");
  EXPECT_EQ(grpo_error({"--generation_batch_size", "20"}),
            "[--generation_batch_size] expected generation_batch_size a multiple of "
            "per_device_train_batch_size, 8\n  "
            "found:  20\n  do:     write generation_batch_size: 16 or 24");
  EXPECT_EQ(grpo_error({"--num_generations", "6", "--gradient_accumulation_steps", "2"}),
            "[--num_generations] expected whole groups of num_generations 6 in a generation batch\n"
            "  found:  16 completions: per_device_train_batch_size 8 x steps_per_generation 2\n"
            "  do:     set num_generations: 4 or 8, or per_device_train_batch_size: 6 or 9");
  EXPECT_EQ(
      grpo_error({"--per_device_train_batch_size", "4"}),
      "[--per_device_train_batch_size] expected whole groups of num_generations 8 in a generation batch\n  "
      "found:  4 completions: per_device_train_batch_size 4 x steps_per_generation 1\n  do:     set "
      "num_generations: 4, or per_device_train_batch_size: 8");
  EXPECT_NE(grpo_error({"--generation_batch_size", "16", "--num_generations", "6"})
                .find("set num_generations: 4 or 8, or generation_batch_size: 24"),
            std::string::npos);
  for (const char* few : {"1", "0", "null"}) {
    EXPECT_EQ(grpo_error({"--num_generations", few}),
              std::string("[--num_generations] expected num_generations at least 2\n  found:  ") + few +
                  "\n"
                  "  likely: the advantage of a completion is its reward relative to the others of its "
                  "prompt\n"
                  "  do:     the default is 8");
  }
  EXPECT_NE(grpo_error({"--per_device_train_batch_size", "100000000"}).find("a generation batch of at most"),
            std::string::npos);
}

TEST_F(PolicyPlanTest, EvaluationHoldsWholeGroups) {
  const Words evaluate = {"--eval_strategy", "steps", "--dataset_name", path("rows")};
  const auto with = [&](Words more) {
    more.insert(more.end(), evaluate.begin(), evaluate.end());
    return more;
  };
  EXPECT_EQ(grpo(with({})).policy.num_generations_eval, 8);
  EXPECT_EQ(grpo(with({"--num_generations_eval", "1"})).policy.num_generations_eval, 1);
  EXPECT_EQ(grpo_error(with({"--per_device_eval_batch_size", "6"})),
            "[--per_device_eval_batch_size] expected whole groups of num_generations_eval 8 in an evaluation "
            "batch\n"
            "  found:  per_device_eval_batch_size 6\n"
            "  likely: num_generations_eval is num_generations unless it is set\n"
            "  do:     set per_device_eval_batch_size: 8, or num_generations_eval: 6");
  EXPECT_EQ(grpo({"--per_device_eval_batch_size", "6"}).per_device_eval_batch_size, 6)
      << "no evaluation, no matter";
}

TEST_F(PolicyPlanTest, Rewards) {
  const std::string file = write("my/rewards.py", "def score(completions, **columns): ...\n");
  EXPECT_EQ(grpo({"--reward_funcs", file + ":score", "package.module.function", "http://host:1/x"})
                .policy.reward_funcs,
            (Words{file + ":score", "package.module.function", "http://host:1/x"}));
  EXPECT_EQ(grpo({"--reward_model_name_or_path", path("model")}).policy.reward_funcs,
            (Words{path("model"), "accuracy_reward"}))
      << "TRL's script puts the model first";
  EXPECT_EQ(
      short_paths(error_of([&] { parse_run(Method::kGrpo, arguments()); })),
      "[reward_funcs (default)] expected at least one reward in reward_funcs\n"
      "  found:  none\n"
      "  do:     write reward_funcs: accuracy_reward, or rewards.py:my_function, in the YAML file or after "
      "--reward_funcs; open-r1's scripts take [accuracy, format, tag_count] where a recipe names none");
  EXPECT_EQ(grpo_error({"--reward_funcs", path("my/reward.py:score")}),
            "[--reward_funcs] expected a Python file before the colon in reward_funcs\n"
            "  found:  'my/reward.py' does not exist. Did you mean 'rewards.py'?\n"
            "  do:     correct the path");
  EXPECT_EQ(grpo_error({"--reward_funcs", file}),
            "[--reward_funcs] expected path/to/file.py:function in reward_funcs\n"
            "  found:  'my/rewards.py'\n"
            "  likely: the function is missing\n"
            "  do:     write my/rewards.py:my_function");
  EXPECT_EQ(grpo({"--reward_funcs", "trl-lib/reward"}).downloads.front().id, "trl-lib/reward");
  EXPECT_NE(grpo_error({"--reward_model_name_or_path", path("none")})
                .find("[--reward_model_name_or_path] expected"),
            std::string::npos);
  EXPECT_NE(grpo_error({"--python", path("bin/python")}).find("[--python] expected a file as python"),
            std::string::npos);
  EXPECT_EQ(grpo_error({"--reward_weights", "1", "2"}),
            "[--reward_weights] expected one weight, for the one reward\n  found:  2 weights");
  EXPECT_NE(grpo_error({"--reward_weights", "one"}).find("[--reward_weights] expected numbers"),
            std::string::npos);
}

TEST_F(PolicyPlanTest, AReplayNeedsNoRewards) {
  const std::string file = write("rollouts.jsonl", "{}\n");
  const auto replay = [&](const Words& more) {
    Words words = arguments({"--replay", file});
    words.insert(words.end(), more.begin(), more.end());
    return parse_run(Method::kGrpo, words);
  };
  EXPECT_EQ(replay({}).policy.replay, file);
  EXPECT_TRUE(replay({}).policy.reward_funcs.empty());
  EXPECT_EQ(replay({"--reward_weights", "1", "2"}).policy.reward_weights.size(), 2U);
  EXPECT_NE(error_of([&] { replay({"--dump_rollouts"}); }).find("either dump_rollouts or replay"),
            std::string::npos);
  for (const char* word : {"--eval_on_start", "--eval_strategy=epoch"}) {
    EXPECT_NE(error_of([&] { replay({word}); }).find("expected no evaluation with replay"),
              std::string::npos);
  }
  const Plan alone =
      parse_run(Method::kGrpo, {"--use_peft", "--model_name_or_path", path("model"), "--replay", file});
  EXPECT_EQ(alone.dataset_name, "");
  EXPECT_EQ(parse_run_text(Method::kGrpo, write_plan(alone), "plan.yaml"), alone) << write_plan(alone);
  EXPECT_NE(grpo_error({"--replay", path("rollout.jsonl")}).find("Did you mean 'rollouts.jsonl'?"),
            std::string::npos);
}

TEST_F(PolicyPlanTest, GenerationKeywords) {
  const PolicyPlan plan =
      grpo({"--top_k", "5", "--generation_kwargs",
            "{\"top_k\": 9, \"top_p\": 0.5, \"min_p\": 0.1, \"repetition_penalty\": 1.2, "
            "\"do_sample\": true, \"temperature\": 1.0, \"max_new_tokens\": 512, "
            "\"stop_strings\": \"###\", \"eos_token_id\": [1, 2], \"min_new_tokens\": null}"})
          .policy;
  EXPECT_EQ(plan.top_k, 9) << "as in TRL, the keyword wins";
  EXPECT_EQ(plan.top_p, 0.5);
  EXPECT_EQ(plan.min_p, 0.1);
  EXPECT_EQ(plan.repetition_penalty, 1.2);
  EXPECT_EQ(plan.stop_strings, Words{"###"});
  EXPECT_EQ(plan.stop_token_ids, (std::vector<std::int64_t>{1, 2}));
  const auto wrong = [&](const std::string& json) { return grpo_error({"--generation_kwargs", json}); };
  EXPECT_EQ(
      wrong("{\"topk\": 5}"),
      "[--generation_kwargs] expected keys that hone has in generation_kwargs\n  found:  'topk'. Did you "
      "mean 'top_k'?\n  likely: a key that hone ignored would change what is sampled\n  do:     hone "
      "has top_k, top_p, min_p, temperature, do_sample, repetition_penalty, max_new_tokens, min_new_tokens, "
      "stop_strings, eos_token_id");
  EXPECT_NE(wrong("{\"num_beams\": 4}").find("generation_kwargs.num_beams at 1, which is off"),
            std::string::npos);
  EXPECT_NE(wrong("{\"typical_p\": 0.9}").find("typical_p drops those too"), std::string::npos);
  EXPECT_EQ(grpo({"--generation_kwargs", "{\"typical_p\": 1, \"num_beams\": null}"}).policy.top_p, 1.0);
  EXPECT_EQ(wrong("{\"temperature\": 0.5}"),
            "[--generation_kwargs] expected the value of temperature, 1, for generation_kwargs.temperature\n"
            "  found:  0.5\n"
            "  likely: the model would sample at one temperature and train at another\n"
            "  do:     write temperature: 0.5 instead");
  EXPECT_NE(wrong("{\"max_new_tokens\": 5}").find("write max_completion_length: 5"), std::string::npos);
  EXPECT_NE(wrong("{\"do_sample\": false}").find("expected true"), std::string::npos);
  EXPECT_NE(wrong("{\"top_p\": 1.5}").find("a number above 0 to 1 for generation_kwargs.top_p"),
            std::string::npos);
  EXPECT_NE(wrong("{\"top_k\": -1}").find("at least 0"), std::string::npos);
  EXPECT_NE(wrong("{\"stop_strings\": \"\"}").find("part of every completion"), std::string::npos);
  EXPECT_NE(wrong("{\"eos_token_id\": \"a\"}").find("token ids"), std::string::npos);
  EXPECT_NE(wrong("{\"min_new_tokens\": 513}").find("at most max_completion_length, 512"), std::string::npos);
}

TEST_F(PolicyPlanTest, BoundsOfSamplingAndLoss) {
  EXPECT_NE(grpo_error({"--temperature", "0"}).find("temperature above 0"), std::string::npos);
  EXPECT_NE(grpo_error({"--num_iterations", "0"}).find("num_iterations from 1"), std::string::npos);
  EXPECT_NE(grpo_error({"--max_completion_length", "null"}).find("a number of tokens"), std::string::npos);
  EXPECT_NE(grpo_error({"--loss_type", "dpo"}).find("choose dapo, grpo"), std::string::npos);
  EXPECT_EQ(grpo({"--scale_rewards", "True"}).policy.scale_rewards, "group");
  EXPECT_EQ(grpo({"--epsilon", "0.3"}).policy.epsilon_high, 0.3);
  EXPECT_NE(grpo_error({"--entropy_coef_min", "2"}).find("of at most entropy_coef_max, 1"),
            std::string::npos);
  EXPECT_EQ(grpo({"--use_adaptive_entropy", "--entropy_coef", "2"}).notes,
            Words{"entropy_coef: starts outside of entropy_coef_min 0 and entropy_coef_max 1"})
      << "TRL runs it";
  for (const Words& range : {Words{"1"}, Words{"2", "1"}, Words{"1", "2", "3"}}) {
    Words more = {"--reward_clip_range"};
    more.insert(more.end(), range.begin(), range.end());
    EXPECT_NE(error_of([&] { policy(Method::kRloo, more); }).find("two numbers, the lower first"),
              std::string::npos);
  }
  const PolicyPlan clipped = policy(Method::kRloo, {"--reward_clip_range", "-2.5", "3"}).policy;
  EXPECT_EQ(clipped.reward_clip_range, std::pair(-2.5, 3.0));
  EXPECT_EQ(grpo({"--disable_dropout"}).lora_dropout, 0);
  EXPECT_EQ(grpo({"--disable_dropout", "--adapter_name_or_path", path("adapter")}).continued_dropout, 0);
}

TEST_F(PolicyPlanTest, TheCorrectionIsOnOnlyWhereItIsSet) {
  EXPECT_FALSE(grpo().policy.importance_sampling_correction);
  EXPECT_FALSE(grpo({"--use_vllm"}).policy.importance_sampling_correction);
  const Plan on = grpo({"--vllm_importance_sampling_correction", "true"});
  EXPECT_TRUE(on.policy.importance_sampling_correction);
  ASSERT_EQ(on.notes.size(), 1U);
  EXPECT_TRUE(on.notes[0].starts_with("vllm_importance_sampling_correction: applied as set;")) << on.notes[0];
  EXPECT_NE(grpo_error({"--vllm_importance_sampling_clip_min", "3"})
                .find("below vllm_importance_sampling_clip_max, 3"),
            std::string::npos);
  const auto with = [&](Words more) {
    more.push_back("--vllm_importance_sampling_correction");
    return grpo_error(more);
  };
  EXPECT_NE(with({"--vllm_importance_sampling_mode", "token_truncate", "--vllm_importance_sampling_clip_max",
                  "null"})
                .find("both bounds are null"),
            std::string::npos);
  EXPECT_NE(with({"--loss_type", "vespo"}).find("token_mask or token_truncate"), std::string::npos);
  EXPECT_EQ(grpo({"--vllm_importance_sampling_clip_max", "null"}).policy.importance_sampling_clip_max,
            std::nullopt);
}

TEST_F(PolicyPlanTest, GmpoHasItsOwnEpsilon) {
  const PolicyPlan plan = grpo({"--loss_type", "gmpo"}).policy;
  EXPECT_EQ(plan.epsilon, 0.4);
  EXPECT_EQ(plan.epsilon_high, 0.4);
  const PolicyPlan set = grpo({"--loss_type", "gmpo", "--epsilon", "0.2", "--epsilon_high", "0.3"}).policy;
  EXPECT_EQ(set.epsilon, 0.2) << "set, though it is the default of the other losses";
  EXPECT_EQ(set.epsilon_high, 0.3);
  EXPECT_EQ(grpo({"--epsilon", "0.3"}).policy.epsilon_high, 0.3);
  const Plan resolved = grpo({"--loss_type", "gmpo"});
  EXPECT_TRUE(resolved.notes.empty());
  EXPECT_EQ(parse_run_text(Method::kGrpo, write_plan(resolved), "plan.yaml"), resolved);
}

// GMPOTrainer's loss reads none of them: told, and without effect.
TEST_F(PolicyPlanTest, GmpoLeavesOptionsOfOtherLosses) {
  const Plan plain = grpo({"--loss_type", "gmpo"});
  const std::map<std::string, std::string> unread = {
      {"importance_sampling_level", "sequence"}, {"delta", "2"},
      {"use_bias_correction_kl", "false"},       {"entropy_coef", "0.01"},
      {"use_adaptive_entropy", "true"},          {"off_policy_mask_threshold", "0.5"},
      {"router_aux_loss_coef", "0.1"},           {"vllm_importance_sampling_correction", "true"}};
  for (const auto& [name, value] : unread) {
    const Plan plan = grpo({"--loss_type", "gmpo", "--" + name, value});
    EXPECT_EQ(plan.notes, Words{name + ": not used, loss_type gmpo does not read it"});
    EXPECT_EQ(plan.policy, plain.policy) << name;
    EXPECT_EQ(plan.router_aux_loss_coef, plain.router_aux_loss_coef);
    EXPECT_EQ(parse_run_text(Method::kGrpo, write_plan(plan), "plan.yaml"), plan) << name;
  }
  const Plan mode = grpo({"--loss_type", "gmpo", "--vllm_importance_sampling_correction", "true",
                          "--vllm_importance_sampling_mode", "token_mask"});
  EXPECT_EQ(mode.notes.size(), 1U) << "a mode of a correction that is told already";
}

TEST_F(PolicyPlanTest, SettingsThatDoNothingAreNoted) {
  EXPECT_EQ(grpo({"--sapo_temperature_pos", "2"}).notes,
            Words{"sapo_temperature_pos: not used, loss_type is not sapo"});
  EXPECT_EQ(grpo({"--loss_type", "sapo", "--delta", "2"}).notes,
            Words{"delta: not used, loss_type sapo has no two-sided clip"});
  EXPECT_EQ(grpo({"--loss_type", "cispo"}).notes,
            Words{"epsilon_high: for cispo it is the largest ratio itself, here 0.2; the paper takes 5.0"});
  EXPECT_TRUE(grpo({"--loss_type", "cispo", "--epsilon_high", "5"}).notes.empty());
  EXPECT_EQ(grpo({"--entropy_target", "2"}).notes,
            Words{"entropy_target: not used, use_adaptive_entropy is false"});
}

TEST_F(PolicyPlanTest, WhatIsRefused) {
  EXPECT_NE(grpo_error({"--remove_unused_columns"}).find("at its default false"), std::string::npos);
  EXPECT_NE(grpo_error({"--log_completions_hub_repo", "a/b"}).find("output_dir/completions"),
            std::string::npos);
}

TEST_F(PolicyPlanTest, NamesFromElsewhere) {
  EXPECT_EQ(grpo_error({"--assistant_only_loss"}),
            "[command line] expected an option of hone grpo\n"
            "  found:  --assistant_only_loss, an option of sft\n"
            "  likely: the file belongs to another method (RL-16)\n"
            "  do:     remove --assistant_only_loss");
  EXPECT_NE(error_of([&] { policy(Method::kRloo, {"--delta", "2"}); }).find("--delta, an option of grpo"),
            std::string::npos);
  EXPECT_NE(run_error({"--num_generations", "4"}).find("an option of grpo, rloo"), std::string::npos);
  EXPECT_NE(grpo_error({"--num_generation", "4"}).find("Did you mean 'num_generations'"), std::string::npos);
  EXPECT_NE(grpo_error({"--environment_factory", "env.py:Shop"}).find("environment"), std::string::npos);
}

TEST_F(PolicyPlanTest, ToolsAndEnvironmentsHaveAPlace) {
  const std::string tools = write("tools.py", "");
  const Plan plan = policy(Method::kGrpo, {"--tools", tools + ":search,calc", "hone.tools.calculator"});
  EXPECT_EQ(plan.acting.tools, (std::vector<std::string>{tools + ":search,calc", "hone.tools.calculator"}));
  EXPECT_EQ(plan.acting.max_tool_calling_iterations, -1);
  EXPECT_NE(grpo_error({"--tools", "search"}).find("a name alone does not say"), std::string::npos);
  EXPECT_NE(grpo_error({"--tools", "no.py:search"}).find("no.py"), std::string::npos);
  EXPECT_NE(grpo_error({"--environment", "a.b.C", "a.b.D"}).find("a name of its own"), std::string::npos);
  EXPECT_NE(grpo_error({"--environment", "x=a.b.C", "x=a.b.D"}).find("a name of its own"), std::string::npos);
}

TEST_F(PolicyPlanTest, ARolloutFunctionStandsAlone) {
  const std::string file = write("rollout.py", "");
  EXPECT_EQ(policy(Method::kRloo, {"--rollout", file + ":make"}).acting.rollout, file + ":make");
  EXPECT_NE(grpo_error({"--rollout", "make"}).find("write rollout.py:make"), std::string::npos);
  EXPECT_NE(grpo_error({"--rollout", "no.py:make"}).find("no.py"), std::string::npos);
  EXPECT_NE(grpo_error({"--rollout", file + ":make", "--tools", "hone.tools.calculator"})
                .find("either a rollout function"),
            std::string::npos);
  EXPECT_NE(grpo_error({"--rollout", file + ":make", "--environment", "ws://localhost:8000"})
                .find("remove environment"),
            std::string::npos);
}

// Each answers at once: with a UserError, or with a plan.
TEST_F(PolicyPlanTest, HugeCountsAreAnsweredAtOnce) {
  const std::string most = "1000000000";
  EXPECT_NE(grpo_error({"--gradient_accumulation_steps", most, "--steps_per_generation", "2"})
                .find("an optimizer step of at most 10000000 completions"),
            std::string::npos);
  EXPECT_NE(grpo_error({"--gradient_accumulation_steps", most}).find("a generation batch of at most"),
            std::string::npos);
  EXPECT_NE(grpo_error({"--per_device_train_batch_size", most}).find("a generation batch of at most"),
            std::string::npos);
  // 999999937 is a prime: its divisors are looked for up to its root.
  EXPECT_NE(grpo_error({"--per_device_eval_batch_size", "999999937", "--eval_on_start"})
                .find("num_generations_eval: 1 or 999999937"),
            std::string::npos);
  EXPECT_EQ(grpo({"--max_steps", most, "--seed", "9223372036854775807"}).seed, 9223372036854775807);
  for (const char* name : {"gradient_accumulation_steps", "per_device_train_batch_size", "max_steps"}) {
    const std::string option = std::string("--") + name;
    EXPECT_NE(run_error({option, "1000000001"}).find(name), std::string::npos);
    EXPECT_NO_THROW(run({option, most})) << name;
  }
}

// verl writes the filter of groups as a mapping.
TEST_F(PolicyPlanTest, VerlsMappingOfGroupFilters) {
  const auto plan = [&](const std::string& filter) {
    return grpo({"--config", write("groups.yaml", "filter_groups: " + filter + "\n")});
  };
  const Plan on = plan("{enable: true, metric: acc, max_num_gen_batches: 10}");
  EXPECT_TRUE(on.policy.filter_groups);
  EXPECT_EQ(on.policy.max_num_gen_batches, 10);
  EXPECT_FALSE(plan("{enable: false}").policy.filter_groups);
  EXPECT_TRUE(plan("true").policy.filter_groups);
  EXPECT_THROW(plan("{enabled: true}"), base::UserError);
}

}  // namespace policy_plan_test
}  // namespace hone::config
