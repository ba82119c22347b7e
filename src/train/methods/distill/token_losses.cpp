// The losses of distillation that read log-probabilities of single tokens from the teacher: at the sampled tokens, and at its most likely
// ones.
#include <ATen/ATen.h>

#include <functional>
#include <utility>

#include "base/error.h"
#include "learn/divergence/sampled_divergence.h"
#include "train/methods/distill/distill.h"
#include "train/passes/policy_pass.h"

namespace hone::train::distill {

namespace {

// Lets `see` have the log-probabilities of the pass's tokens; with a factor its gradients go on into the model.
void run_pass(const model::CausalLm& model, const PolicyPass& pass, const RngKey& key, const PassForm& form,
              const HeadOptions& head, double factor,
              const std::function<learn::PolicyGradient(const TokenScores&)>& see) {
  if (factor == 0) {
    see(score_policy(model, pass, key, form, head));
  } else {
    train_policy(model, pass, key, form, head, see);
  }
}

}  // namespace

// The drawn tokens of the pass's samples, in its order.
TeacherScores Distill::ask_teacher(const RolloutBatch& batch, const PolicyPass& pass, std::int64_t k) const {
  const auto width = static_cast<std::size_t>(k);
  TeacherScores out;
  for (const std::size_t i : pass.samples) {
    const RolloutSample& sample = batch.samples[i];
    std::vector<std::int32_t> ids = batch.prompts[sample.prompt].ids;
    const std::size_t from = ids.size();
    ids.insert(ids.end(), sample.ids.begin(), sample.ids.end());
    const TeacherScores all = parts_.teacher->score(ids, from, k);
    auto given = sample.given.begin();
    for (std::size_t t = 0; t < sample.ids.size(); ++t) {
      while (given != sample.given.end() && std::cmp_less_equal(given->end, t)) ++given;
      if (given != sample.given.end() && std::cmp_less_equal(given->begin, t)) continue;
      out.logprobs.push_back(all.logprobs[t]);
      const auto begin = static_cast<std::ptrdiff_t>(t * width),
                 end = static_cast<std::ptrdiff_t>((t + 1) * width);
      if (k == 0) continue;
      out.top_ids.insert(out.top_ids.end(), all.top_ids.begin() + begin, all.top_ids.begin() + end);
      out.top_logprobs.insert(out.top_logprobs.end(), all.top_logprobs.begin() + begin,
                              all.top_logprobs.begin() + end);
    }
  }
  return out;
}

DivergenceFacts Distill::run_top_k(const RolloutBatch& batch, const PolicyPass& pass, const RngKey& key,
                                   double factor) const {
  const std::int64_t k = parts_.plan.distill.loss_top_k;
  const TeacherScores asked = ask_teacher(batch, pass, k);
  const auto count = static_cast<std::int64_t>(asked.logprobs.size());
  const learn::TopKTeacher teacher{.ids = at::tensor(asked.top_ids, at::kLong).view({count, k}),
                                   .logprobs = at::tensor(asked.top_logprobs, at::kFloat).view({count, k})};
  return run_top_k_divergence(parts_.model, teacher, pass, key, parts_.form, options_.temperature, factor);
}

// `sampler` is at the temperature of sampling, which options and opening require of the loss too.
DivergenceFacts Distill::run_sampled(const RolloutBatch& batch, const PolicyPass& pass,
                                     const at::Tensor& sampler, const RngKey& key, double factor) const {
  const config::DistillPlan& plan = parts_.plan.distill;
  const learn::SampledDivergenceOptions options{.coef = plan.kl_penalty_coef,
                                                .discount = plan.kl_discount_factor};
  const HeadOptions head{.temperature = options_.temperature};
  const at::Tensor teacher =
      parts_.teacher != nullptr
          ? at::tensor(ask_teacher(batch, pass, 0).logprobs, at::kFloat)
          : parts_.reference.score(parts_.model, [&](const model::CausalLm& model, bool adapters_on) {
              return score_policy(model, pass, {.adapters_on = adapters_on}, parts_.form, head).logprob;
            });
  DivergenceFacts out;
  const auto see = [&](const TokenScores& scores) {
    const learn::SampledDivergence found =
        learn::sampled_divergence(scores.logprob, sampler, teacher, pass.sequence, options, factor);
    out = {.divergence = found.loss,
           .entropy = scores.entropy.sum(at::kDouble).item<double>(),
           .teacher_kl = found.teacher_kl,
           .tokens = scores.logprob.numel()};
    return learn::PolicyGradient{
        .loss = found.loss, .d_logprob = found.d_logprob, .d_entropy = {}, .metrics = {}};
  };
  run_pass(parts_.model, pass, key, parts_.form, head, factor, see);
  return out;
}

}  // namespace hone::train::distill
