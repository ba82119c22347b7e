// Every L_t is multiplied by a constant weight m_t / D and summed: what differs between loss types is in
// policy_loss() and weights(). Per-sequence values are [S] and reach tokens by index.
#include "learn/policy_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "learn/policy_parts.h"

namespace hone::learn {
namespace {

using detail::Parts;

const double kLowestLog = std::log(1e-8);  // TRL's floor under VESPO's log w
constexpr double kHighestLog = 20;

// GRPOTrainer.get_gamma_weights: [S], no gradient.
at::Tensor gamma_weights(const Parts& parts, const PolicyTokens& tokens, const PolicyLossOptions& options) {
  const at::NoGradGuard no_grad;
  const at::Tensor log_ratio = parts.log_ratio.detach().clamp(-kHighestLog, kHighestLog);
  at::Tensor log_w = parts.sum(log_ratio * parts.m);
  if (tokens.sampling_ratio.defined())
    log_w = log_w + parts.sum(tokens.sampling_ratio.to(at::kDouble).log().clamp(kLowestLog, kHighestLog));
  log_w = log_w.clamp(kLowestLog, kHighestLog);
  const at::Tensor good = parts.advantages >= 0;
  const auto choose = [&](double pos, double neg) {
    return at::where(good, at::scalar_tensor(pos, log_w.options()), at::scalar_tensor(neg, log_w.options()));
  };
  const at::Tensor k = choose(options.vespo_k_pos, options.vespo_k_neg);
  const at::Tensor lambda = choose(options.vespo_lambda_pos, options.vespo_lambda_neg).clamp_min(1e-4);
  return (lambda + k * log_w - lambda * log_w.exp()).exp().nan_to_num(0.0, 0.0, 0.0);
}

// GRPOTrainer.get_off_policy_mask: [S] fp64, 1 keeps.
at::Tensor off_policy_mask(const Parts& parts, const PolicyTokens& tokens, double threshold) {
  const at::NoGradGuard no_grad;
  const at::Tensor from =
      tokens.sampling_logprob.defined() ? tokens.sampling_logprob.to(at::kDouble) : parts.old_logprob;
  // Like torch.nan_to_num(x, nan=0), infinities become finite.
  const at::Tensor gap = (from - parts.logprob.detach()).nan_to_num(0.0);
  const at::Tensor mean = parts.sum(gap * parts.m) / parts.length.clamp_min(1);
  return at::logical_or(parts.advantages >= 0, mean <= threshold).to(at::kDouble);
}

// rho [n] or [S], before delta. GMPO: log rho [n].
at::Tensor ratio_of(const Parts& parts, const PolicyLossOptions& options) {
  if (options.loss_type == PolicyLossType::kGmpo) return parts.log_ratio;
  if (options.loss_type == PolicyLossType::kRloo) return parts.sum(parts.log_ratio * parts.m).exp();
  if (options.importance_level == ImportanceLevel::kToken) return parts.log_ratio.exp();
  return (parts.sum(parts.log_ratio * parts.m) / parts.length.clamp_min(1)).exp();
}

struct Ratio {
  at::Tensor rho;         // [n] or [S]; capped at delta once the clipped surrogate has been through
  at::Tensor advantages;  // of the same shape
  bool by_sequence = false;
};

at::Tensor clipped_surrogate(Ratio& ratio, const PolicyLossOptions& options) {
  const double high = options.epsilon_high.value_or(options.epsilon);
  const at::Tensor clipped = ratio.rho.clamp(1 - options.epsilon, 1 + high);
  if (options.delta && options.loss_type != PolicyLossType::kRloo)
    ratio.rho = ratio.rho.clamp_max(*options.delta);
  return -at::min(ratio.rho * ratio.advantages, clipped * ratio.advantages);
}

at::Tensor sapo(const Ratio& ratio, const PolicyLossOptions& options) {
  const at::TensorOptions like = ratio.advantages.options();
  const at::Tensor tau =
      at::where(ratio.advantages > 0, at::scalar_tensor(options.sapo_temperature_pos, like),
                at::scalar_tensor(options.sapo_temperature_neg, like));
  return -(at::sigmoid(tau * (ratio.rho - 1)) * 4 / tau) * ratio.advantages;
}

// GMPOTrainer._compute_loss without its KL: [S]. kept [n]: 1 for the tokens of the mean. TRL's min and max
// with the ratio clamped on both sides are one clamp each.
at::Tensor gmpo(const Parts& parts, const Ratio& ratio, const at::Tensor& kept,
                const PolicyLossOptions& options) {
  const double high = options.epsilon_high.value_or(options.epsilon);
  const at::Tensor clipped =
      at::where(ratio.advantages > 0, ratio.rho.clamp_max(high), ratio.rho.clamp_min(-options.epsilon));
  const at::Tensor mean = parts.sum(clipped * kept) / parts.sum(kept).clamp_min(1);
  return -mean.exp() * parts.advantages;
}

// m_t / D of every token [n] (RLOO, GMPO: 1 / D of every sequence [S]); no gradient.
at::Tensor weights(const Parts& parts, const PolicyLossOptions& options, const StepTotals& totals) {
  const bool local = options.span == Span::kMicroBatch;
  const double own = static_cast<double>(parts.sequences);
  const double sequences = local ? own * totals.micro_batches : totals.sequences;
  switch (options.loss_type) {
    using enum PolicyLossType;
    case kGrpo:
    case kSapo:
      return parts.m / parts.to_tokens(parts.length.clamp_min(1)) / sequences;
    case kBnpo:
      return local ? parts.m / (parts.m.sum().clamp_min(1) * totals.micro_batches)
                   : parts.m / std::max(totals.tokens, 1.0);
    case kDrGrpo:
      return parts.m / (options.max_completion_length * sequences);
    case kDapo:
    case kCispo:
    case kVespo:
      return parts.m /
             (std::max(totals.generation_tokens, 1.0) * totals.sequences / totals.generation_sequences);
    case kLuspo:
      return parts.m / sequences;
    case kRloo:
    case kGmpo:
      return at::full({parts.sequences}, 1 / sequences, parts.m.options());
  }
  return {};
}

// 1 where a token's entropy reaches the threshold; undefined where all do.
at::Tensor entropy_mask(const Parts& parts, const PolicyLossOptions& options, const StepTotals& totals) {
  if (options.top_entropy_quantile >= 1 || options.loss_type == PolicyLossType::kRloo) return {};
  const at::NoGradGuard no_grad;
  const double threshold = options.span == Span::kStep
                               ? totals.entropy_threshold
                               : top_entropy(parts.entropy, parts.m, options.top_entropy_quantile).first;
  return (parts.entropy * parts.m >= threshold).to(at::kDouble) * parts.m;
}

at::Tensor entropy_bonus(const Parts& parts, const at::Tensor& high, const PolicyLossOptions& options,
                         const StepTotals& totals) {
  const at::Tensor effective = high.defined() ? high : parts.m;
  const at::Tensor sum = (parts.entropy * effective).sum();
  if (options.span == Span::kMicroBatch) return sum / effective.sum().clamp_min(1) / totals.micro_batches;
  return sum / std::max(high.defined() ? totals.high_entropy_tokens : totals.tokens, 1.0);
}

void check_call(const PolicyTokens& tokens, const PolicyLossOptions& options, const StepTotals& totals) {
  constexpr auto kWhere = "learn::policy_loss";
  detail::check_terms(tokens, options);
  base::require(totals.micro_batches >= 1, kWhere, "at least one micro-batch");
  base::require(totals.sequences >= 1 && totals.generation_sequences >= 1, kWhere,
                "totals of a step and a generation batch with at least one sequence");
  if (options.loss_type == PolicyLossType::kRloo) return;
  base::require(tokens.sampling_ratio.defined() == (options.sampling_correction != SamplingCorrection::kNone),
                kWhere, "a sampling_ratio if and only if there is a sampling_correction");
  base::require(options.loss_type != PolicyLossType::kVespo || !detail::corrects_sequences(options), kWhere,
                "VESPO with a sampling correction of tokens, as in TRL");
  base::require(options.span == Span::kMicroBatch || options.top_entropy_quantile >= 1 ||
                    !std::isnan(totals.entropy_threshold),
                kWhere, "the step's entropy_threshold for top_entropy_quantile");
}

}  // namespace

PolicyLoss policy_loss(const PolicyTokens& tokens, const PolicyLossOptions& options,
                       const StepTotals& totals) {
  using enum PolicyLossType;
  check_call(tokens, options, totals);
  const Parts parts = detail::parts_of(tokens, options);
  const bool rloo = options.loss_type == kRloo, geometric = options.loss_type == kGmpo;
  const bool with_kl = options.beta != 0 && !rloo;
  const bool sums = detail::sums_sequences(options.loss_type);
  Ratio ratio{.rho = ratio_of(parts, options),
              .by_sequence = rloo || (options.importance_level == ImportanceLevel::kSequence && !geometric)};
  const at::Tensor by_token = parts.to_tokens(parts.advantages);
  ratio.advantages = ratio.by_sequence ? parts.advantages : by_token;
  const auto spread = [&](const at::Tensor& x) {
    return ratio.by_sequence && !rloo ? parts.to_tokens(x) : x;
  };

  at::Tensor kl;
  if (with_kl) {
    const at::Tensor gap = tokens.ref_logprob.to(at::kDouble) - parts.logprob;
    kl = gap.exp() - gap - 1;
    if (options.use_bias_correction_kl && !geometric) kl = kl * spread(ratio.rho);
  }

  const at::Tensor high = entropy_mask(parts, options, totals);
  at::Tensor loss, phi;
  if (geometric) {
    loss = gmpo(parts, ratio, high.defined() ? high : parts.m, options);
    if (with_kl) loss = loss + options.beta * parts.sum(kl * parts.m) / parts.length.clamp_min(1);
  } else if (detail::clips_ratio(options.loss_type)) {
    loss = spread(clipped_surrogate(ratio, options));
  } else if (options.loss_type == kCispo) {
    const double cap = options.epsilon_high.value_or(options.epsilon);
    loss = -spread(ratio.rho.clamp_max(cap).detach()) * by_token * parts.logprob;
  } else if (options.loss_type == kSapo) {
    loss = spread(sapo(ratio, options));
  } else {
    phi = gamma_weights(parts, tokens, options);
    loss = -parts.to_tokens(phi) * by_token * parts.logprob;
  }

  if (!sums) {
    if (options.off_policy_mask_threshold)
      loss = loss * parts.to_tokens(off_policy_mask(parts, tokens, *options.off_policy_mask_threshold));
    if (high.defined()) loss = loss * high;
    if (tokens.sampling_ratio.defined() && options.loss_type != kVespo)
      loss = loss * detail::per_token(parts, tokens, options);
    if (with_kl) loss = loss + options.beta * kl;
  }
  loss = (loss * weights(parts, options, totals)).sum();

  const bool bonus = options.entropy_coef != 0 && !sums;
  const at::Tensor policy = loss.detach();
  if (bonus) loss = loss - options.entropy_coef * entropy_bonus(parts, high, options, totals);
  const detail::Facts facts{.rho = ratio.rho,
                            .advantages = ratio.advantages,
                            .by_sequence = ratio.by_sequence,
                            .kl = kl,
                            .phi = phi,
                            .high_entropy = high,
                            .policy_loss = policy,
                            .has_policy_loss = bonus || (options.entropy_bonus && !sums)};
  return {loss, detail::metrics_of(parts, facts, options, totals)};
}

PolicyGradient policy_gradient(const PolicyTokens& tokens, const PolicyLossOptions& options,
                               const StepTotals& totals) {
  const at::AutoGradMode grad(true);
  const bool bonus = options.entropy_coef != 0 && !detail::sums_sequences(options.loss_type);
  PolicyTokens leaves = tokens;
  leaves.logprob = tokens.logprob.detach().requires_grad_(true);
  std::vector<at::Tensor> inputs{leaves.logprob};
  if (bonus) {
    leaves.entropy = tokens.entropy.detach().requires_grad_(true);
    inputs.push_back(leaves.entropy);
  }
  const PolicyLoss result = policy_loss(leaves, options, totals);
  const auto gradients = torch::autograd::grad({result.loss}, inputs);
  PolicyGradient out{.loss = result.loss.item<double>(), .metrics = result.metrics};
  out.d_logprob = gradients[0].to(at::kFloat);
  if (bonus) out.d_entropy = gradients[1].to(at::kFloat);
  return out;
}

at::Tensor sequences_without_gradient(const PolicyTokens& tokens, const PolicyLossOptions& options) {
  const at::NoGradGuard no_grad;
  at::Tensor none = at::zeros(tokens.advantages.sizes(), tokens.advantages.options().dtype(at::kBool));
  const bool sums = detail::sums_sequences(options.loss_type);
  const bool with_kl = options.beta != 0 && options.loss_type != PolicyLossType::kRloo;
  const bool with_bonus = (options.entropy_coef != 0 || options.entropy_bonus) && !sums;
  if (!with_kl && !with_bonus) {
    none = tokens.advantages == 0;
    if (tokens.sampling_ratio.defined() && detail::corrects_sequences(options) && !sums)
      none = at::logical_or(none, tokens.sampling_ratio == 0);
  }
  if (options.mask_truncated_completions && tokens.truncated.defined())
    none = at::logical_or(none, tokens.truncated);
  return none;
}

}  // namespace hone::learn
