#include "learn/policy_parts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <tuple>

#include "base/error.h"

namespace hone::learn {
namespace {

constexpr auto kWhere = "learn::policy_loss";

void check_list(const at::Tensor& given, std::int64_t size, bool optional, const char* what) {
  if (optional && !given.defined()) return;
  base::require(given.defined() && given.dim() == 1 && given.size(0) == size, kWhere, what);
}

// Shapes of what is there. What a loss cannot do without is its own check (check_terms): the correction of
// the sampler and RLOO's penalty read the same tokens before a pass has given entropies.
void check_shapes(const PolicyTokens& tokens, const PolicyLossOptions& options) {
  check_list(tokens.logprob, tokens.logprob.defined() ? tokens.logprob.numel() : 0, false, "logprob [n]");
  check_list(tokens.advantages, tokens.advantages.defined() ? tokens.advantages.numel() : 0, false,
             "advantages [S]");
  const std::int64_t n = tokens.logprob.size(0);
  const std::int64_t count = tokens.advantages.size(0);
  check_list(tokens.old_logprob, n, true, "old_logprob [n] or undefined");
  check_list(tokens.ref_logprob, n, true, "ref_logprob [n] or undefined");
  check_list(tokens.sampling_logprob, n, true, "sampling_logprob [n] or undefined");
  check_list(tokens.sampling_ratio, detail::corrects_sequences(options) ? count : n, true,
             "sampling_ratio of the correction's shape, [n] for tokens, [S] for sequences");
  check_list(tokens.entropy, n, true, "entropy [n] or undefined");
  check_list(tokens.mask, n, true, "mask [n] or undefined");
  check_list(tokens.truncated, count, true, "truncated [S] or undefined");
  check_list(tokens.sequence, n, false, "sequence [n]");
  base::require(tokens.sequence.scalar_type() == at::kLong, kWhere, "sequence to be int64");
}

}  // namespace

namespace detail {

void check_terms(const PolicyTokens& tokens, const PolicyLossOptions& options) {
  if (options.loss_type == PolicyLossType::kRloo) return;
  base::require(options.beta == 0 || tokens.ref_logprob.defined(), kWhere,
                "ref_logprob [n] where beta is not 0");
  const bool uses_entropy = options.top_entropy_quantile < 1 || options.entropy_coef != 0;
  base::require(!uses_entropy || tokens.entropy.defined(), kWhere,
                "entropy [n] for top_entropy_quantile and entropy_coef");
}

at::Tensor Parts::sum(const at::Tensor& per_token) const {
  return at::zeros({sequences}, m.options()).index_add(0, sequence, per_token);
}

at::Tensor Parts::to_tokens(const at::Tensor& per_sequence) const {
  return per_sequence.index_select(0, sequence);
}

bool clips_ratio(PolicyLossType type) {
  using enum PolicyLossType;
  return type != kCispo && type != kSapo && type != kVespo;
}

bool sums_sequences(PolicyLossType type) {
  return type == PolicyLossType::kRloo || type == PolicyLossType::kGmpo;
}

bool corrects_sequences(const PolicyLossOptions& options) {
  return options.sampling_correction == SamplingCorrection::kSequenceMask ||
         options.sampling_correction == SamplingCorrection::kSequenceTruncate;
}

at::Tensor per_token(const Parts& parts, const PolicyTokens& tokens, const PolicyLossOptions& options) {
  const at::Tensor ratio = tokens.sampling_ratio.to(at::kDouble);
  return corrects_sequences(options) ? parts.to_tokens(ratio) : ratio;
}

Parts parts_of(const PolicyTokens& tokens, const PolicyLossOptions& options) {
  check_shapes(tokens, options);
  Parts out{.sequences = tokens.advantages.size(0), .logprob = tokens.logprob.to(at::kDouble)};
  out.old_logprob =
      (tokens.old_logprob.defined() ? tokens.old_logprob : out.logprob).detach().to(at::kDouble);
  out.log_ratio = out.logprob - out.old_logprob;
  if (tokens.entropy.defined()) out.entropy = tokens.entropy.to(at::kDouble);
  out.sequence = tokens.sequence;
  out.m = scored_tokens(tokens, options);
  out.advantages = tokens.advantages.to(at::kDouble);
  out.length = out.sum(out.m);
  return out;
}

}  // namespace detail

at::Tensor scored_tokens(const PolicyTokens& tokens, const PolicyLossOptions& options) {
  const at::NoGradGuard no_grad;
  at::Tensor m = tokens.mask.defined()
                     ? tokens.mask.to(at::kDouble)
                     : at::ones(tokens.logprob.sizes(), tokens.logprob.options().dtype(at::kDouble));
  if (options.mask_truncated_completions && tokens.truncated.defined())
    m = m * at::logical_not(tokens.truncated).to(at::kDouble).index_select(0, tokens.sequence);
  return m;
}

std::pair<double, double> top_entropy(const at::Tensor& entropy, const at::Tensor& scored,
                                      double top_quantile) {
  const at::NoGradGuard no_grad;
  const at::Tensor valid = entropy.masked_select(scored != 0).to(at::kFloat);
  if (valid.numel() == 0) return {std::numeric_limits<double>::infinity(), 0};
  const auto threshold = static_cast<double>(at::quantile(valid, 1 - top_quantile).item<float>());
  const at::Tensor high = at::logical_and(entropy.to(at::kDouble) >= threshold, scored != 0);
  return {threshold, high.sum().item<double>()};
}

StepTotals totals_of(const PolicyTokens& step, const PolicyLossOptions& options) {
  const at::Tensor m = scored_tokens(step, options);
  StepTotals out{.sequences = static_cast<double>(step.advantages.size(0)), .tokens = m.sum().item<double>()};
  out.generation_sequences = out.sequences;
  out.generation_tokens = out.tokens;
  if (options.top_entropy_quantile < 1)
    std::tie(out.entropy_threshold, out.high_entropy_tokens) =
        top_entropy(step.entropy, m, options.top_entropy_quantile);
  return out;
}

SamplingRatio sampling_ratio(const PolicyTokens& tokens, const PolicyLossOptions& options) {
  constexpr auto kName = "learn::sampling_ratio";
  const at::NoGradGuard no_grad;
  base::require(options.sampling_correction != SamplingCorrection::kNone, kName, "a sampling_correction");
  base::require(tokens.sampling_logprob.defined(), kName, "sampling_logprob [n]");
  PolicyTokens own = tokens;
  own.sampling_ratio.reset();
  const detail::Parts parts = detail::parts_of(own, options);
  const at::Tensor gap = parts.old_logprob - tokens.sampling_logprob.to(at::kDouble);
  const at::Tensor diff = (gap * parts.m).nan_to_num(0.0);
  const bool by_sequence = detail::corrects_sequences(options);
  SamplingRatio out{.ratio = (by_sequence ? parts.sum(diff) : diff).exp()};
  const double infinity = std::numeric_limits<double>::infinity();
  const double low = options.importance_sampling_clip_min.value_or(-infinity);
  const double high = options.importance_sampling_clip_max.value_or(infinity);
  if (options.sampling_correction == SamplingCorrection::kTokenTruncate ||
      options.sampling_correction == SamplingCorrection::kSequenceTruncate)
    out.ratio = out.ratio.clamp(low, high);
  else
    out.ratio = out.ratio.masked_fill(at::logical_or(out.ratio<low, out.ratio> high), 0.0);

  const at::Tensor compared =
      gap.masked_select(at::logical_and(parts.m != 0, gap.isnan().logical_not())).abs();
  if (compared.numel() > 0) {
    out.logp_difference_mean = compared.mean().item<double>();
    out.logp_difference_max = compared.max().item<double>();
  }
  const at::Tensor shown = by_sequence ? out.ratio : out.ratio.masked_select(parts.m != 0);
  if (shown.numel() > 0) {
    out.ratio_min = shown.min().item<double>();
    out.ratio_mean = shown.mean().item<double>();
    out.ratio_max = shown.max().item<double>();
  }
  return out;
}

RlooPenalty rloo_penalty(const PolicyTokens& tokens, const PolicyLossOptions& options) {
  const at::NoGradGuard no_grad;
  const detail::Parts parts = detail::parts_of(tokens, options);
  base::require(tokens.ref_logprob.defined(), "learn::rloo_penalty", "ref_logprob [n]");
  const at::Tensor gap = (parts.old_logprob - tokens.ref_logprob.to(at::kDouble)) * parts.m;
  RlooPenalty out{.sum = parts.sum(gap)};
  out.mean = (gap.sum() / parts.m.sum().clamp_min(1)).item<double>();
  return out;
}

}  // namespace hone::learn
