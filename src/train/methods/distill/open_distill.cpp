// The order of events before the first step of a distillation, as prose.
#include <algorithm>

#include "train/batches/mixed_rollouts.h"
#include "train/methods/distill/distill.h"
#include "train/opening/opening.h"
#include "train/opening/sampling_opening.h"

namespace hone::train::distill {

namespace {

LongestBatch longest_pass(const config::Plan& plan, std::int64_t prompts, const PromptSizes& sizes) {
  const std::int64_t prompt = sizes.longest;
  const std::int64_t completion = std::max(plan.policy.max_completion_length, sizes.longest_given);
  return {.tokens = prompts * (prompt + completion),
          .scored = prompts * completion,
          .segment = prompt + completion};
}

LargestPasses largest_passes(const config::Plan& plan, const PromptSizes& sizes) {
  LargestPasses out{.train = longest_pass(plan, plan.per_device_train_batch_size, sizes),
                    .longest_prompt = sizes.longest};
  const bool evaluates = !plan.dataset_test.empty() && plan.policy.replay.empty();
  if (evaluates) out.eval = longest_pass(plan, plan.per_device_eval_batch_size, sizes);
  return out;
}

std::string mix_words(const config::Plan& plan) {
  if (!mixes(plan)) return {};
  return "; " + short_number(1 - plan.distill.lmbda) + " of the micro-batches with completions of " +
         (plan.distill.seq_kd ? "the teacher" : "the data");
}

std::string loss_line(const config::Plan& plan) {
  const double beta = plan.distill.beta;
  const std::string kind =
      plan.distill.loss_type == "sampled" ? "KL(model, teacher) at the sampled tokens"
      : plan.distill.loss_type == "top_k"
          ? "KL(teacher, model) at " + std::to_string(plan.distill.loss_top_k) + " tokens and the rest"
      : beta == 0 ? "KL(teacher, model)"
      : beta == 1 ? "KL(model, teacher)"
                  : "Jensen-Shannon divergence, beta " + short_number(beta);
  const std::string& server = plan.distill.teacher_model_server_url;
  return kind + "; teacher: " + (server.empty() ? describe_reference(plan) : "the model of " + server) +
         mix_words(plan);
}

constexpr SamplingOpening kOpening = {
    .wants_reference = [](const config::Plan& plan) { return plan.distill.teacher_model_server_url.empty(); },
    .passes = &largest_passes,
    .method = [](SamplingParts parts, const OpenedRun&, const SamplingOpening&)
        -> std::unique_ptr<TrainingMethod> { return std::make_unique<Distill>(std::move(parts)); },
    .loss_line = &loss_line,
    .generation_count = [](const config::Plan&, std::int64_t /*prompts*/,
                           std::int64_t steps) { return steps; },
    .has_teacher = true};

}  // namespace

MethodOpening row() {
  return {.method = config::Method::kDistill, .sampling = &kOpening};
}

}  // namespace hone::train::distill
