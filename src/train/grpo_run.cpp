// open_policy: the order of events before the first step of a GRPO or RLOO run, as prose.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/process_memory.h"
#include "model/weight_source.h"
#include "train/grpo.h"
#include "train/machine.h"
#include "train/memory_inputs.h"
#include "train/open_model.h"
#include "train/open_run.h"
#include "train/opening.h"
#include "train/policy_opening.h"
#include "train/reference.h"
#include "train/run_folder.h"
#include "train/run_setup.h"

namespace hone::train {

namespace fs = base::fs;

namespace {

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
    count_shared_prompts(out, model, longest_prompt,
                         std::min(plan.per_device_train_batch_size, plan.policy.num_generations) *
                             plan.policy.max_completion_length);
  }
  if (plan.policy.replay.empty()) out.sampling = sampling_bytes(model, plan, longest_prompt, sampling);
  return out;
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
  out.reward_names = weighted_names(policy, rewards);
  out.sampling = sampling_line(policy);
  out.loss = loss_line(plan);
  out.evaluation = evaluation_line(policy, eval_prompts);
  return out;
}

struct OpenedPolicy final : OpenedSampling {
  using OpenedSampling::OpenedSampling;
  void opened() override {
    if (!plan.policy.dump_rollouts) return;
    const auto& policy = static_cast<const PolicyMethod&>(*method);
    trim_rollouts(place.output_dir() / kRolloutsFile, policy.next_generation(standing->state.step));
  }
};

}  // namespace

std::unique_ptr<OpenedRun> open_policy(const config::Plan& asked, RunListener& listener) {
  at::set_num_threads(static_cast<int>(threads_or_default(asked.threads)));
  auto run = std::make_unique<OpenedPolicy>(asked);
  const config::Plan& plan = run->plan;

  // Data and rewards before weights: a wrong row or a broken function is found in seconds.
  run->source = model::open_weights(plan.model_name_or_path);
  const OpenedText& opened = run->text.emplace(open_text(plan));
  open_prompts_and_rewards(*run);
  const PolicyPrompts& prompts = run->train_prompts;
  const bool replays = run->replays();
  const auto [prompt_count, longest_prompt] = prompt_sizes(*run);
  const std::size_t replayed = run->recorded.size();
  const RolloutPrompt rehearsed = rehearsal_prompt(*run);

  const std::int64_t program_bytes = base::process_memory().resident;
  model::CausalLm& model = read_base(*run);
  const at::Tensor reference = open_adapter_and_reference(*run, /*wanted=*/plan.policy.beta != 0);
  adapters::Adapter& adapter = *run->adapter;
  if (plan.policy.disable_dropout) adapter.set_dropout(0);
  require_room_for_checkpoint(run->place, adapter);
  const fs::path data_file = replays ? plan.policy.replay : plan.dataset_name;
  const Standing& standing = run->standing.emplace(find_standing(
      plan, run->place, adapter,
      data_print(data_file, static_cast<std::int64_t>(replays ? replayed : prompts.rows.size()))));

  StartFacts& start = run->start;
  begin_start_page(*run, std::nullopt);
  start.train_rows = prompt_count;
  rollout::GenerateOptions sampling = sampling_options(plan, model.config(), opened.tokenizer);
  sampling.samples = plan.policy.num_generations;
  start.memory = plan_memory(policy_inputs(model, plan, program_bytes, longest_prompt, sampling),
                             plan.layer_form, plan.recompute, memory_limit(plan));
  open_sources(*run, sampling);
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
  run->method = std::move(method);
  end_start_page(*run);
  if (const auto note = short_replay(order_of(plan, prompt_count), start.total_steps, replayed)) {
    if (replays) start.notes.push_back(*note);
  }
  return run;
}

LoopResult run_policy(const config::Plan& plan, RunListener& listener,
                      const std::atomic<bool>& stop_requested) {
  const std::unique_ptr<OpenedRun> run = open_policy(plan, listener);
  return begin_run(*run, listener, stop_requested);
}

}  // namespace hone::train
