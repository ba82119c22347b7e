#include "train/policy_opening.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "config/secret_words.h"
#include "rewards/judge.h"
#include "rewards/open_reward.h"
#include "train/model_reward.h"
#include "train/opening.h"

namespace hone::train {

namespace fs = base::fs;

namespace {

base::Json template_kwargs(const config::Plan& plan) {
  const std::string& kwargs = plan.policy.chat_template_kwargs;
  return kwargs.empty() ? base::Json() : base::parse_json(kwargs, "chat_template_kwargs");
}

PolicyPrompts read_prompts(const fs::path& file, const OpenedSampling& run) {
  const model::ModelConfig& model = run.source->config();
  const std::int64_t longest = run.plan.policy.max_completion_length;
  const std::string option =
      run.plan.method == config::Method::kOnlineDpo ? "max_new_tokens" : "max_completion_length";
  PolicyPrompts out;
  out.rows = data::read_prompt_rows(file);
  out.tokens = data::tokenise_prompts(out.rows, run.text->tokenizer, run.text->chat_template.get(),
                                      template_kwargs(run.plan), model.vocab_size);
  for (std::size_t i = 0; i < out.rows.size(); ++i) {
    const auto length = static_cast<std::int64_t>(out.tokens[i].ids.size());
    if (length + longest <= model.max_position_embeddings) continue;
    throw base::UserError(
        {.where = out.rows[i].where,
         .expected = "a prompt that leaves room for " + option + " " + std::to_string(longest) +
                     " within the model's " + std::to_string(model.max_position_embeddings) + " positions",
         .found = std::to_string(length) + " tokens",
         .cause = "the model has never seen the positions after that; TRL 1.16 cuts no prompts either",
         .fix = "lower " + option + ", or leave such prompts out of the data"});
  }
  return out;
}

rewards::OpenOptions reward_options(const config::Plan& plan) {
  return {.python = plan.policy.python,
          .workers = static_cast<int>(plan.policy.reward_workers),
          .timeout = plan.policy.reward_timeout,
          .open_model = [&plan](const std::string& folder) {
            return open_model_reward(folder, plan.precision, template_kwargs(plan));
          }};
}

// A reward function that needs a column which the data lack would raise on every call.
void require_columns(const config::Plan& plan, const std::vector<std::vector<std::string>>& needed,
                     const PolicyPrompts& prompts) {
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const std::string& word = plan.policy.reward_funcs[i];
    for (const std::string& column : needed[i]) {
      if (prompts.rows.front().columns.contains(column)) continue;
      std::string there;
      for (const auto& [name, value] : prompts.rows.front().columns.items())
        there += (there.empty() ? "" : ", ") + name;
      throw base::UserError(
          {.where = "reward_funcs " + word,
           .expected = "a column `" + column + "` in the data, which this reward reads (RL-05)",
           .found = there.empty() ? "no columns but prompt" : "the columns " + there,
           .cause = "the column has another name, or the rows were made without it",
           .fix = "rename the column, or name yours where the reward takes a parameter (column=...)"});
    }
  }
}

void open_rewards(OpenedSampling& run) {
  const config::Plan& plan = run.plan;
  const rewards::OpenOptions options = reward_options(plan);
  if (!plan.online.judge.empty()) {
    run.judge.push_back(rewards::open_judge({.word = plan.online.judge,
                                             .model = plan.online.judge_model,
                                             .prompt = plan.online.judge_prompt,
                                             .key_variable = config::judge_key_variable(plan)},
                                            options));
    return;
  }
  run.reward_list = rewards::open_rewards(plan.policy.reward_funcs, options);
  for (std::size_t i = 0; i < run.reward_list.size(); ++i) {
    run.columns.push_back(rewards::needed_columns(plan.policy.reward_funcs[i], *run.reward_list[i]));
  }
  require_columns(plan, run.columns, run.train_prompts);
  if (!run.eval_prompts.rows.empty()) require_columns(plan, run.columns, run.eval_prompts);
}

// Keys and values may take what the plan leaves of memory_limit; without one, half of what is free then.
std::int64_t kv_memory(const config::Plan& plan, const MemoryPlan& memory) {
  if (plan.policy.kv_memory > 0 || !memory.limit.is_set) return plan.policy.kv_memory;
  std::int64_t held = 0;  // program, base, adapter: the tape is gone while sampling
  for (std::size_t i = 0; i < std::min<std::size_t>(3, memory.segments.size()); ++i)
    held += memory.segments[i].bytes;
  return std::max<std::int64_t>(1, memory.limit.bytes - held);
}

void require_weights(const config::Plan& plan, const RolloutBatch& batch) {
  const std::size_t weights = plan.policy.reward_weights.size(), rewards = batch.reward_names.size();
  if (weights == 0 || weights == rewards) return;
  throw base::UserError(
      {.where = "reward_weights",
       .expected = "one for each of the " + std::to_string(rewards) + " rewards of the replay",
       .found = std::to_string(weights)});
}

}  // namespace

void open_prompts_and_rewards(OpenedSampling& run) {
  const config::Plan& plan = run.plan;
  if (!plan.dataset_name.empty()) run.train_prompts = read_prompts(plan.dataset_name, run);
  if (!plan.dataset_test.empty() && !run.replays()) {
    run.eval_prompts = read_prompts(plan.dataset_test, run);
  }
  if (run.replays()) {
    run.recorded = read_rollouts(plan.policy.replay);
  } else {
    open_rewards(run);
  }
}

PromptSizes prompt_sizes(const OpenedSampling& run) {
  PromptSizes out{.count = static_cast<std::int64_t>(run.train_prompts.rows.size()),
                  .longest = run.train_prompts.longest()};
  if (!run.train_prompts.rows.empty()) return out;
  for (const RolloutBatch& batch : run.recorded) {
    out.count += static_cast<std::int64_t>(batch.prompts.size());
    for (const RolloutPrompt& one : batch.prompts) {
      out.longest = std::max(out.longest, static_cast<std::int64_t>(one.ids.size()));
    }
  }
  return out;
}

RolloutPrompt rehearsal_prompt(const OpenedSampling& run) {
  if (run.replays()) return run.recorded.front().prompts.front();
  return {.ids = run.train_prompts.tokens.front().ids};
}

void open_sources(OpenedSampling& run, rollout::GenerateOptions sampling) {
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  if (run.replays()) {
    for (const RolloutBatch& batch : run.recorded) require_weights(run.plan, batch);
    run.train_source = std::make_unique<ReplayedRollouts>(std::move(run.recorded), tokenizer);
    return;
  }
  sampling.kv_memory = kv_memory(run.plan, run.start.memory);
  const auto& scorers = run.judge.empty() ? run.reward_list : run.judge;
  run.train_source =
      std::make_unique<LiveRollouts>(sampling, *run.model, run.train_prompts, tokenizer, scorers);
  if (run.eval_prompts.rows.empty()) return;
  run.eval_source =
      std::make_unique<LiveRollouts>(sampling, *run.model, run.eval_prompts, tokenizer, scorers);
}

void trim_rollouts(const fs::path& path, std::int64_t first_generation) {
  if (!fs::exists(path)) return;
  const std::string text = base::read_text(path);
  std::string kept;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const base::Json json = base::Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto generation = json.is_object() ? json.find("generation") : json.end();
    if (generation != json.end() && generation->is_number_integer() && *generation < first_generation)
      kept += line + "\n";
  }
  base::write_file_atomic(path, kept);
}

std::string sampling_line(const config::PolicyPlan& policy) {
  std::string out = "temperature " + short_number(policy.temperature);
  if (policy.top_p < 1) out += ", top_p " + short_number(policy.top_p);
  if (policy.top_k > 0) out += ", top_k " + std::to_string(policy.top_k);
  if (policy.min_p > 0) out += ", min_p " + short_number(policy.min_p);
  if (policy.repetition_penalty != 1)
    out += ", repetition_penalty " + short_number(policy.repetition_penalty);
  return out + ", at most " + std::to_string(policy.max_completion_length) + " new tokens";
}

std::vector<std::string> weighted_names(const config::PolicyPlan& policy,
                                        const std::vector<std::string>& rewards) {
  std::vector<std::string> out;
  for (std::size_t k = 0; k < rewards.size(); ++k) {
    const double weight = k < policy.reward_weights.size() ? policy.reward_weights[k] : 1;
    out.push_back((weight == 1 ? "" : short_number(weight) + " x ") + rewards[k]);
  }
  return out;
}

std::string evaluation_line(const config::PolicyPlan& policy, std::int64_t prompts) {
  if (prompts == 0) return {};
  return std::to_string(prompts) + " prompts x " + std::to_string(policy.num_generations_eval) +
         (policy.num_generations_eval == 1 ? " completion" : " completions");
}

}  // namespace hone::train
