#include "train/opening/group_opening.h"

#include <algorithm>

#include "train/opening/opening.h"
#include "train/steps/group_method.h"

namespace hone::train {

namespace {

PolicyOrder order_of(const config::Plan& plan, std::int64_t prompts, data::StreamedRows streamed = {}) {
  return PolicyOrder(
      {.prompts = prompts,
       .prompts_per_generation = plan.policy.generation_batch_size / plan.policy.num_generations,
       .steps_per_generation = plan.policy.steps_per_generation,
       .num_iterations = plan.policy.num_iterations,
       .accumulation = plan.accumulation(),
       .seed = static_cast<std::uint64_t>(plan.seed),
       .shuffle = plan.shuffle_dataset,
       .streamed = std::move(streamed)});
}

// per_device_train_batch_size completions of max_completion_length, with their prompts. Passes that would
// have more tokens are cut (compose_passes).
LargestPasses largest_passes(const config::Plan& plan, const PromptSizes& sizes) {
  const std::int64_t sequences = plan.per_device_train_batch_size;
  const std::int64_t length = plan.policy.max_completion_length, group = plan.policy.num_generations;
  const std::int64_t longest_prompt = sizes.longest;
  const bool shared = may_share(plan);
  const std::int64_t prompts = shared ? (sequences + group - 1) / group : sequences;
  return {.train = {.tokens = prompts * longest_prompt + sequences * length,
                    .scored = sequences * length,
                    .segment = shared ? std::max(longest_prompt, length) : longest_prompt + length},
          .shares = plan.share_prompt,
          .longest_prompt = longest_prompt,
          .sharing = std::min(sequences, group) * length};
}

std::unique_ptr<TrainingMethod> new_group_method(SamplingParts parts, const OpenedRun& run,
                                                 const SamplingOpening& opening) {
  PolicyOrder order = order_of(run.plan, parts.prompts, parts.streamed);
  return std::make_unique<GroupMethod>(std::move(parts), opening.group, std::move(order),
                                       run.resume_state->method_files);
}

}  // namespace

std::string clipped_words(const config::PolicyPlan& policy) {
  std::string out = ", beta " + short_number(policy.beta) + ", epsilon " + short_number(policy.epsilon);
  if (policy.epsilon_high) out += " to " + short_number(*policy.epsilon_high);
  return out;
}

std::string iteration_words(const config::PolicyPlan& policy) {
  if (policy.num_iterations <= 1) return {};
  return ", " + std::to_string(policy.num_iterations) + " iterations per batch";
}

SamplingOpening group_opening(const GroupLoss& loss, std::string (*loss_line)(const config::Plan&)) {
  return {.wants_reference = [](const config::Plan& plan) { return plan.policy.beta != 0; },
          .passes = &largest_passes,
          .method = &new_group_method,
          .loss_line = loss_line,
          .steps_per_batch =
              [](const config::Plan& plan) {
                const config::PolicyPlan& policy = plan.policy;
                return policy.steps_per_generation * policy.num_iterations / plan.accumulation();
              },
          .generation_count =
              [](const config::Plan& plan, std::int64_t prompts, std::int64_t steps) {
                return steps == 0 ? 0 : order_of(plan, prompts).step_slices(steps - 1).back().generation + 1;
              },
          .replayed_again = ", with log-probabilities recorded from older weights",
          .group = loss};
}

}  // namespace hone::train
