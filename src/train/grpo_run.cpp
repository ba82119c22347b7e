// open_policy: the order of events before the first step of a GRPO or RLOO run, as prose.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/process_memory.h"
#include "learn/schedule.h"
#include "model/weight_source.h"
#include "ops/attention.h"
#include "rewards/open_reward.h"
#include "rollout/kv_memory.h"
#include "train/grpo.h"
#include "train/machine.h"
#include "train/memory_inputs.h"
#include "train/model_reward.h"
#include "train/open_model.h"
#include "train/open_run.h"
#include "train/reference.h"
#include "train/run_folder.h"
#include "train/run_setup.h"

namespace hone::train {

namespace fs = base::fs;

namespace {

PolicyPrompts read_prompts(const fs::path& file, const config::Plan& plan, const OpenedText& opened,
                           const model::ModelConfig& model) {
  PolicyPrompts out;
  out.rows = data::read_prompt_rows(file);
  const std::string& kwargs = plan.policy.chat_template_kwargs;
  out.tokens = data::tokenise_prompts(
      out.rows, opened.tokenizer, opened.chat_template.get(),
      kwargs.empty() ? base::Json() : base::parse_json(kwargs, "chat_template_kwargs"), model.vocab_size);
  for (std::size_t i = 0; i < out.rows.size(); ++i) {
    const auto length = static_cast<std::int64_t>(out.tokens[i].ids.size());
    if (length + plan.policy.max_completion_length <= model.max_position_embeddings) continue;
    throw base::UserError(
        {.where = out.rows[i].where,
         .expected = "a prompt that leaves room for max_completion_length " +
                     std::to_string(plan.policy.max_completion_length) + " within the model's " +
                     std::to_string(model.max_position_embeddings) + " positions",
         .found = std::to_string(length) + " tokens",
         .cause = "the model has never seen the positions after that; TRL 1.16 cuts no prompts either",
         .fix = "lower max_completion_length, or leave such prompts out of the data"});
  }
  return out;
}

std::vector<std::vector<std::string>> columns_of_rewards(const config::Plan& plan,
                                                         const rewards::OpenOptions& options) {
  std::vector<std::vector<std::string>> out;
  for (const std::string& word : plan.policy.reward_funcs)
    out.push_back(rewards::needed_columns(word, options));
  return out;
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

PolicyOrder order_of(const config::Plan& plan, std::int64_t prompts) {
  return PolicyOrder(
      {.prompts = prompts,
       .prompts_per_generation = plan.policy.generation_batch_size / plan.policy.num_generations,
       .steps_per_generation = plan.policy.steps_per_generation,
       .num_iterations = plan.policy.num_iterations,
       .accumulation = plan.gradient_accumulation_steps,
       .seed = static_cast<std::uint64_t>(plan.seed),
       .shuffle = plan.shuffle_dataset});
}

// The largest pass: per_device_train_batch_size completions of max_completion_length, with their prompts.
// Passes that would have more tokens are cut (compose_passes).
LongestBatch longest_pass(const config::Plan& plan, std::int64_t longest_prompt) {
  const config::PolicyPlan& policy = plan.policy;
  const std::int64_t sequences = plan.per_device_train_batch_size;
  const bool shared = policy.share_prompt && plan.layer_form != config::LayerForm::kPlain;
  const std::int64_t group = policy.num_generations;
  const std::int64_t prompts = shared ? (sequences + group - 1) / group : sequences;
  return {.tokens = prompts * longest_prompt + sequences * policy.max_completion_length,
          .scored = sequences * policy.max_completion_length,
          .segment = shared ? std::max(longest_prompt, policy.max_completion_length)
                            : longest_prompt + policy.max_completion_length};
}

MemoryInputs policy_inputs(const model::CausalLm& model, const config::Plan& plan, std::int64_t program_bytes,
                           std::int64_t longest_prompt, const rollout::GenerateOptions& sampling) {
  MemoryInputs out =
      memory_inputs(model, plan, program_bytes, longest_pass(plan, longest_prompt), LongestBatch());
  if (plan.policy.share_prompt) {
    out.attention_backward = ops::packed_attention_backward_bytes(
        {.tokens = out.train.tokens,
         .longest = out.train.segment,
         .prefix = longest_prompt,
         .sharing = std::min(plan.per_device_train_batch_size, plan.policy.num_generations) *
                    plan.policy.max_completion_length,
         .heads = out.model.num_attention_heads,
         .kv_heads = out.model.num_key_value_heads,
         .head_dim = out.model.head_dim,
         .threads = out.threads,
         .dtype = model.numbers().linear});
  }
  if (plan.policy.replay.empty()) out.sampling = sampling_bytes(model, plan, longest_prompt, sampling);
  return out;
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

// A replay that is too short is used again from its beginning.
std::optional<std::string> short_replay(const PolicyOrder& order, std::int64_t steps, std::size_t batches) {
  if (steps == 0) return std::nullopt;
  const std::int64_t needed = order.step_slices(steps - 1).back().generation + 1;
  if (needed <= static_cast<std::int64_t>(batches)) return std::nullopt;
  return "replay holds " + std::to_string(batches) + " generation batches and the run takes " +
         std::to_string(needed) +
         ": they are used again, with log-probabilities that were recorded for older weights";
}

// What a killed run wrote of batches that the resumed one makes again.
void trim_rollouts(const fs::path& path, std::int64_t first_generation) {
  if (!fs::exists(path)) return;
  const std::string text = base::read_text(path);
  std::string kept;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const base::Json json = base::Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.value("generation", first_generation) < first_generation)
      kept += line + "\n";
  }
  base::write_file_atomic(path, kept);
}

std::string short_number(double value) {
  std::string out = std::to_string(value);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out;
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

std::string loss_line(const config::Plan& plan) {
  const config::PolicyPlan& policy = plan.policy;
  const bool rloo = plan.method == config::Method::kRloo;
  std::string out = rloo ? "rloo" : policy.loss_type;
  out += ", beta " + short_number(policy.beta) + ", epsilon " + short_number(policy.epsilon);
  if (policy.epsilon_high) out += " to " + short_number(*policy.epsilon_high);
  if (!rloo) out += ", advantages scaled by " + policy.scale_rewards;
  if (policy.num_iterations > 1) out += ", " + std::to_string(policy.num_iterations) + " iterations a batch";
  return out;
}

PolicyStartFacts policy_facts(const config::Plan& plan, std::int64_t prompts, std::int64_t longest,
                              const std::vector<std::string>& rewards, std::int64_t eval_prompts) {
  const config::PolicyPlan& policy = plan.policy;
  PolicyStartFacts out{.prompts = prompts,
                       .longest_prompt = longest,
                       .num_generations = policy.num_generations,
                       .generation_batch_size = policy.generation_batch_size};
  out.steps_per_batch =
      policy.steps_per_generation * policy.num_iterations / plan.gradient_accumulation_steps;
  for (std::size_t k = 0; k < rewards.size(); ++k) {
    const double weight = k < policy.reward_weights.size() ? policy.reward_weights[k] : 1;
    out.reward_names.push_back((weight == 1 ? "" : short_number(weight) + " x ") + rewards[k]);
  }
  out.sampling = sampling_line(policy);
  out.loss = loss_line(plan);
  if (eval_prompts > 0) {
    out.evaluation = std::to_string(eval_prompts) + " prompts x " +
                     std::to_string(policy.num_generations_eval) +
                     (policy.num_generations_eval == 1 ? " completion" : " completions");
  }
  return out;
}

rewards::OpenOptions reward_options(const config::Plan& plan) {
  return {.python = plan.policy.python,
          .workers = static_cast<int>(plan.policy.reward_workers),
          .timeout = plan.policy.reward_timeout,
          .open_model = [&plan](const std::string& folder) {
            const std::string& kwargs = plan.policy.chat_template_kwargs;
            return open_model_reward(
                folder, plan.precision,
                kwargs.empty() ? base::Json() : base::parse_json(kwargs, "chat_template_kwargs"));
          }};
}

struct OpenedPolicy final : OpenedRun {
  using OpenedRun::OpenedRun;
  const PolicyPrompts* prompts() const override { return &train_prompts; }
  std::span<const std::unique_ptr<rewards::Reward>> rewards() const override { return reward_list; }
  std::span<const std::vector<std::string>> reward_columns() const override { return columns; }
  void opened() override {
    if (!plan.policy.dump_rollouts || !place.resuming()) return;
    const auto& policy = static_cast<const PolicyMethod&>(*method);
    trim_rollouts(place.output_dir() / kRolloutsFile, policy.next_generation(standing->state.step));
  }

  PolicyPrompts train_prompts, eval_prompts;
  std::vector<std::unique_ptr<rewards::Reward>> reward_list;
  std::vector<std::vector<std::string>> columns;  // of each reward
  std::unique_ptr<RolloutSource> train_source, eval_source;
};

// What the run samples from: the model itself, or the batches of a replay.
void open_sources(OpenedPolicy& run, std::vector<RolloutBatch> recorded, rollout::GenerateOptions sampling) {
  const text::Tokenizer& tokenizer = run.text->tokenizer;
  if (!run.plan.policy.replay.empty()) {
    for (const RolloutBatch& batch : recorded) require_weights(run.plan, batch);
    run.train_source = std::make_unique<ReplayedRollouts>(std::move(recorded), tokenizer);
    return;
  }
  sampling.kv_memory = kv_memory(run.plan, run.start.memory);
  run.train_source =
      std::make_unique<LiveRollouts>(sampling, *run.model, run.train_prompts, tokenizer, run.reward_list);
  if (run.eval_prompts.rows.empty()) return;
  run.eval_source =
      std::make_unique<LiveRollouts>(sampling, *run.model, run.eval_prompts, tokenizer, run.reward_list);
}

}  // namespace

std::unique_ptr<OpenedRun> open_policy(const config::Plan& asked, RunListener& listener) {
  at::set_num_threads(static_cast<int>(threads_or_default(asked.threads)));
  auto run = std::make_unique<OpenedPolicy>(asked);
  const config::Plan& plan = run->plan;
  const bool replays = !plan.policy.replay.empty();

  // Data and rewards before weights: a wrong row or a broken function is found in seconds.
  run->source = model::open_weights(plan.model_name_or_path);
  const OpenedText& opened = run->text.emplace(open_text(plan));
  PolicyPrompts& prompts = run->train_prompts;
  if (!plan.dataset_name.empty())
    prompts = read_prompts(plan.dataset_name, plan, opened, run->source->config());
  if (!plan.dataset_test.empty() && !replays) {
    run->eval_prompts = read_prompts(plan.dataset_test, plan, opened, run->source->config());
  }
  std::vector<RolloutBatch> recorded;
  if (replays) {
    recorded = read_rollouts(plan.policy.replay);
  } else {
    const rewards::OpenOptions options = reward_options(plan);
    run->reward_list = rewards::open_rewards(plan.policy.reward_funcs, options);
    run->columns = columns_of_rewards(plan, options);
    require_columns(plan, run->columns, prompts);
    if (!run->eval_prompts.rows.empty()) require_columns(plan, run->columns, run->eval_prompts);
  }

  const std::int64_t program_bytes = base::process_memory().resident;
  const bool plain = plan.layer_form == config::LayerForm::kPlain;
  model::CausalLm& model = run->model.emplace(*run->source, numbers(plan.precision),
                                              plain ? model::Storage::kPlain : model::Storage::kPacked);
  const at::Tensor reference = plan.policy.beta == 0 ? at::Tensor() : reference_adapter(model, plan);
  adapters::Adapter& adapter = run->adapter.emplace(open_adapter(model, plan, run->place));
  if (plan.policy.disable_dropout) adapter.set_dropout(0);
  require_room_for_checkpoint(run->place, adapter);
  const fs::path data_file = replays ? plan.policy.replay : plan.dataset_name;
  const Standing& standing = run->standing.emplace(find_standing(
      plan, run->place, adapter,
      data_print(data_file, static_cast<std::int64_t>(replays ? recorded.size() : prompts.rows.size()))));

  StartFacts& start = run->start;
  start.notes = plan.notes;
  if (const auto note = convert_note(plan, *run->source)) start.notes.push_back(*note);
  start.notes.insert(start.notes.end(), standing.notes.begin(), standing.notes.end());
  start.resumed_from = standing.resumed_from;
  start.trained = trained_facts(model, adapter);
  std::int64_t longest_prompt = prompts.longest(),
               prompt_count = static_cast<std::int64_t>(prompts.rows.size());
  if (prompts.rows.empty()) {  // a replay alone: as many prompts as it holds
    for (const RolloutBatch& batch : recorded) {
      prompt_count += static_cast<std::int64_t>(batch.prompts.size());
      for (const RolloutPrompt& one : batch.prompts) {
        longest_prompt = std::max(longest_prompt, static_cast<std::int64_t>(one.ids.size()));
      }
    }
  }
  start.train_rows = prompt_count;
  rollout::GenerateOptions sampling = sampling_options(plan, model.config(), opened.tokenizer);
  sampling.samples = plan.policy.num_generations;
  start.memory = plan_memory(policy_inputs(model, plan, program_bytes, longest_prompt, sampling),
                             plan.layer_form, plan.recompute, memory_limit(plan));
  const std::size_t replayed = recorded.size();
  const RolloutPrompt rehearsed =
      replays ? recorded.front().prompts.front() : RolloutPrompt{.ids = prompts.tokens.front().ids};
  open_sources(*run, std::move(recorded), sampling);
  auto method = std::make_unique<PolicyMethod>(
      PolicyParts{
          .plan = plan,
          .model = model,
          .source = *run->train_source,
          .evaluation = run->eval_source.get(),
          .evaluation_prompts = static_cast<std::int64_t>(run->eval_prompts.rows.size()),
          .order = order_of(plan, prompt_count),
          .form = pass_form(start.memory),
          .pass_tokens = longest_pass(plan, longest_prompt).tokens,
          .dropout = adapter.config().dropout > 0 && !plan.policy.disable_dropout,
          .listener = listener,
          .parameters = adapter.flat(),
          .reference = reference,
          .rollouts_file = plan.policy.dump_rollouts ? run->place.output_dir() / kRolloutsFile : fs::path(),
          .rehearsal_prompt = rehearsed,
          .sampling = sampling},
      standing.method_files);
  start.policy = policy_facts(plan, prompt_count, longest_prompt, run->train_source->reward_names(),
                              static_cast<std::int64_t>(run->eval_prompts.rows.size()));
  if (!prompts.tokens.empty()) start.example = {{.text = prompts.tokens.front().text, .supervised = false}};
  start.total_steps = method->total_steps();
  if (const auto note = short_replay(order_of(plan, prompt_count), start.total_steps, replayed)) {
    if (replays) start.notes.push_back(*note);
  }
  start.steps_per_epoch = method->steps_per_epoch();
  start.warmup_steps = learn::resolve_warmup(plan.warmup_steps, start.total_steps);
  start.first_step = standing.state.step;
  start.output_dir = plan.output_dir;
  run->method = std::move(method);
  return run;
}

LoopResult run_policy(const config::Plan& plan, RunListener& listener,
                      const std::atomic<bool>& stop_requested) {
  const std::unique_ptr<OpenedRun> run = open_policy(plan, listener);
  return begin_run(*run, listener, stop_requested);
}

}  // namespace hone::train
