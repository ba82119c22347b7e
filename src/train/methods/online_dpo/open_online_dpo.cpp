// The order of events before the first step of an Online DPO run, as prose.
#include <algorithm>

#include "train/methods/online_dpo/online_dpo.h"
#include "train/opening/opening.h"
#include "train/opening/sampling_opening.h"

namespace hone::train::online_dpo {

namespace {

// Pairs of completions of max_new_tokens, each with the longest prompt.
LongestBatch longest_pass(const config::Plan& plan, std::int64_t prompts, std::int64_t prompt) {
  const std::int64_t completion = plan.policy.max_completion_length;
  const bool shared = may_share(plan);
  return {.tokens = prompts * ((shared ? 1 : 2) * prompt + 2 * completion),
          .scored = prompts * 2 * completion,
          .segment = shared ? std::max(prompt, completion) : prompt + completion};
}

LargestPasses largest_passes(const config::Plan& plan, const PromptSizes& sizes) {
  const std::int64_t prompt = std::min(sizes.longest, plan.max_length - 1);
  LargestPasses out{.train = longest_pass(plan, plan.per_device_train_batch_size, prompt),
                    .shares = may_share(plan),
                    .longest_prompt = prompt,
                    .sharing = 2 * plan.policy.max_completion_length};
  const bool evaluates = !plan.dataset_test.empty() && plan.policy.replay.empty();
  if (evaluates) out.eval = longest_pass(plan, plan.per_device_eval_batch_size, prompt);
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
    out += ", " + short_number(*plan.online.missing_eos_penalty) +
           " subtracted from the score without an "
           "end";
  }
  out += plan.online.skip_ties ? ", ties left out" : "";
  return out + "; reference: " + describe_reference(plan);
}

constexpr SamplingOpening kOpening = {
    .wants_reference = [](const config::Plan&) { return true; },
    .passes = &largest_passes,
    .method = [](SamplingParts parts, const OpenedRun&, const SamplingOpening&)
        -> std::unique_ptr<TrainingMethod> { return std::make_unique<OnlineDpo>(std::move(parts)); },
    .loss_line = &loss_line,
    .generation_count = [](const config::Plan&, std::int64_t /*prompts*/,
                           std::int64_t steps) { return steps; }};

}  // namespace

MethodOpening row() {
  return {.method = config::Method::kOnlineDpo, .sampling = &kOpening};
}

}  // namespace hone::train::online_dpo
