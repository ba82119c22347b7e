// open_online_dpo: the order of events before the first step of an Online DPO run, as prose.
#include <ATen/Parallel.h>

#include <algorithm>

#include "base/process_memory.h"
#include "model/weight_source.h"
#include "train/machine.h"
#include "train/memory_inputs.h"
#include "train/online_dpo.h"
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

bool may_share(const config::Plan& plan) {
  return plan.policy.share_prompt && plan.layer_form != config::LayerForm::kPlain;
}

// Pairs of completions of max_new_tokens, each with the longest prompt.
LongestBatch longest_pass(const config::Plan& plan, std::int64_t prompts, std::int64_t longest_prompt) {
  const std::int64_t completion = plan.policy.max_completion_length;
  const std::int64_t prompt = std::min(longest_prompt, plan.max_length - 1);
  const bool shared = may_share(plan);
  return {.tokens = prompts * ((shared ? 1 : 2) * prompt + 2 * completion),
          .scored = prompts * 2 * completion,
          .segment = shared ? std::max(prompt, completion) : prompt + completion};
}

MemoryInputs online_inputs(const model::CausalLm& model, const config::Plan& plan, std::int64_t program_bytes,
                           std::int64_t longest_prompt, bool evaluates,
                           const rollout::GenerateOptions& sampling) {
  MemoryInputs out = memory_inputs(
      model, plan, program_bytes, longest_pass(plan, plan.per_device_train_batch_size, longest_prompt),
      evaluates ? longest_pass(plan, plan.per_device_eval_batch_size, longest_prompt) : LongestBatch());
  if (may_share(plan)) {
    count_shared_prompts(out, model, std::min(longest_prompt, plan.max_length - 1),
                         2 * plan.policy.max_completion_length);
  }
  if (plan.policy.replay.empty()) out.sampling = sampling_bytes(model, plan, longest_prompt, sampling);
  return out;
}

std::string loss_line(const config::Plan& plan) {
  std::string out = plan.online.loss_type + ", beta ";
  for (std::size_t i = 0; i < plan.online.beta.size(); ++i) {
    out += (i == 0                             ? ""
            : i + 1 == plan.online.beta.size() ? ", then "
                                               : ", ") +
           short_number(plan.online.beta[i]);
  }
  if (plan.online.missing_eos_penalty) {
    out += ", " + short_number(*plan.online.missing_eos_penalty) + " off the score without an end";
  }
  out += plan.online.skip_ties ? ", ties left out" : "";
  return out + "; reference: " + reference_words(plan);
}

PolicyStartFacts policy_facts(const OpenedSampling& run, PromptSizes sizes) {
  const config::PolicyPlan& policy = run.plan.policy;
  PolicyStartFacts out{.prompts = sizes.count,
                       .longest_prompt = sizes.longest,
                       .num_generations = policy.num_generations,
                       .generation_batch_size = policy.generation_batch_size,
                       .steps_per_batch = 1};
  const std::vector<std::string>& names = run.train_source->reward_names();
  out.reward_names =
      run.judge.empty() ? weighted_names(policy, names) : std::vector{"the judge " + names.front()};
  out.sampling = sampling_line(policy);
  out.loss = loss_line(run.plan);
  out.evaluation = evaluation_line(policy, static_cast<std::int64_t>(run.eval_prompts.rows.size()));
  return out;
}

struct OpenedOnlineDpo final : OpenedSampling {
  using OpenedSampling::OpenedSampling;
  void opened() override {
    if (!plan.policy.dump_rollouts) return;
    trim_rollouts(place.output_dir() / kRolloutsFile, standing->state.step);  // one a step
  }
};

}  // namespace

std::unique_ptr<OpenedRun> open_online_dpo(const config::Plan& asked, RunListener& listener) {
  at::set_num_threads(static_cast<int>(threads_or_default(asked.threads)));
  auto run = std::make_unique<OpenedOnlineDpo>(asked);
  const config::Plan& plan = run->plan;

  // Data and rewards before weights: a wrong row or a broken function is found in seconds.
  run->source = model::open_weights(plan.model_name_or_path);
  const OpenedText& opened = run->text.emplace(open_text(plan));
  open_prompts_and_rewards(*run);
  const PromptSizes sizes = prompt_sizes(*run);
  const auto replayed = static_cast<std::int64_t>(run->recorded.size());
  const RolloutPrompt rehearsed = rehearsal_prompt(*run);

  const std::int64_t program_bytes = base::process_memory().resident;
  model::CausalLm& model = read_base(*run);
  const at::Tensor reference = open_adapter_and_reference(*run);
  adapters::Adapter& adapter = *run->adapter;
  if (plan.policy.disable_dropout) adapter.set_dropout(0);
  require_room_for_checkpoint(run->place, adapter);
  const bool replays = run->replays();
  run->standing.emplace(find_standing(
      plan, run->place, adapter,
      data_print(replays ? plan.policy.replay : plan.dataset_name, replays ? replayed : sizes.count)));

  StartFacts& start = run->start;
  begin_start_page(*run, std::nullopt);
  start.train_rows = sizes.count;
  rollout::GenerateOptions sampling = sampling_options(plan, model.config(), opened.tokenizer);
  sampling.samples = plan.policy.num_generations;
  const bool evaluates = !run->eval_prompts.rows.empty();
  start.memory = plan_memory(online_inputs(model, plan, program_bytes, sizes.longest, evaluates, sampling),
                             plan.layer_form, plan.recompute, memory_limit(plan));
  open_sources(*run, sampling);
  auto method = std::make_unique<OnlineDpoMethod>(OnlineDpoParts{
      .plan = plan,
      .model = model,
      .source = *run->train_source,
      .evaluation = run->eval_source.get(),
      .prompts = sizes.count,
      .evaluation_prompts = static_cast<std::int64_t>(run->eval_prompts.rows.size()),
      .form = pass_form(start.memory),
      .dropout = adapter.config().dropout > 0 && !plan.policy.disable_dropout,
      .listener = listener,
      .parameters = adapter.flat(),
      .reference = reference,
      .rollouts_file = plan.policy.dump_rollouts ? run->place.output_dir() / kRolloutsFile : fs::path(),
      .rehearsal_prompt = rehearsed,
      .sampling = sampling});
  start.policy = policy_facts(*run, sizes);
  if (!run->train_prompts.tokens.empty()) {
    start.example = {{.text = run->train_prompts.tokens.front().text, .supervised = false}};
  }
  run->method = std::move(method);
  end_start_page(*run);
  if (replays && replayed < start.total_steps) {
    start.notes.push_back("replay holds " + std::to_string(replayed) +
                          " generation batches and the run takes " + std::to_string(start.total_steps) +
                          ": they are used again");
  }
  return run;
}

LoopResult run_online_dpo(const config::Plan& plan, RunListener& listener,
                          const std::atomic<bool>& stop_requested) {
  const std::unique_ptr<OpenedRun> run = open_online_dpo(plan, listener);
  return begin_run(*run, listener, stop_requested);
}

}  // namespace hone::train
