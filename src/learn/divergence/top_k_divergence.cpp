#include "learn/divergence/top_k_divergence.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "learn/divergence/head_side.h"

namespace hone::learn {

namespace {

constexpr double kLeastTeacher = 1e-8, kLeastStudent = 1e-30;

// What the teacher says of a block's rows.
struct NamedTokens {
  at::Tensor ids;       // [n, k]
  at::Tensor logprobs;  // [n, k] fp64
  at::Tensor rest;      // [n] fp64: t

  // The places of the tokens in a tile of `width` columns, [n, k]; those of other tiles are at `width`.
  at::Tensor places(std::int64_t column, std::int64_t width) const {
    const at::Tensor local = ids - column;
    return at::where((local >= 0).logical_and(local < width), local, width);
  }
};

// x [n, w] with `values` [n, k] at the places of named tokens.
at::Tensor with_named(const at::Tensor& x, const at::Tensor& places, const at::Tensor& values) {
  at::Tensor wide = at::cat({x, x.new_empty({x.size(0), 1})}, 1);
  return wide.scatter_(1, places, values).narrow(1, 0, x.size(1));
}

template <typename Use>
void each_named_tile(const HeadSide& side, const Use& use) {
  for (std::int64_t column = 0; column < side.vocabulary(); column += kTileColumns) {
    const std::int64_t width = std::min(kTileColumns, side.vocabulary() - column);
    use(column, side.logits(column, width));
  }
}

// Sums over the tiles so far, [n] fp64 each: of e = exp(z - peak).
struct NamedSums {
  at::Tensor peak;  // [n] fp32
  at::Tensor sum, dot, rest;
  at::Tensor named;  // [n, k] fp32: the logits of the named tokens

  NamedSums(const HeadSide& side, const NamedTokens& tokens)
      : peak(at::full({side.hidden().size(0)}, -std::numeric_limits<float>::infinity(),
                      side.hidden().options().dtype(at::kFloat))),
        sum(at::zeros_like(tokens.rest)),
        dot(at::zeros_like(sum)),
        rest(at::zeros_like(sum)),
        named(at::zeros_like(tokens.logprobs, at::kFloat)) {}

  void take(const at::Tensor& z, const at::Tensor& places) {
    const at::Tensor higher = at::maximum(peak, z.amax(1));
    const at::Tensor shrink = (peak - higher).exp().to(at::kDouble);
    const at::Tensor e = (z - higher.unsqueeze(1)).exp();
    const at::Tensor others = with_named(e, places, at::zeros_like(named));
    sum.mul_(shrink).add_(e.sum(1, false, at::kDouble));
    dot.mul_(shrink).add_((e * z).sum(1, false, at::kDouble));
    rest.mul_(shrink).add_(others.sum(1, false, at::kDouble));
    const std::int64_t width = z.size(1);
    named = at::where(places < width, z.gather(1, places.clamp_max(width - 1)), named);
    peak = higher;
  }
  at::Tensor log_sum() const { return peak.to(at::kDouble) + sum.log(); }
};

// The block's rows; `factor` null: no gradient.
DivergenceRows named_block(const HeadSide& side, const NamedTokens& tokens, const double* factor,
                           const DivergenceTrained& trained) {
  NamedSums sums(side, tokens);
  each_named_tile(side, [&](std::int64_t column, const at::Tensor& z) {
    sums.take(z, tokens.places(column, z.size(1)));
  });
  const at::Tensor log_sum = sums.log_sum();
  const at::Tensor student = sums.named.to(at::kDouble) - log_sum.unsqueeze(1);
  const at::Tensor log_rest = (sums.rest / sums.sum).clamp_min(kLeastStudent).log();
  const at::Tensor weight = tokens.logprobs.exp();
  DivergenceRows out{.divergence = (weight * (tokens.logprobs - student)).sum(1) +
                                   tokens.rest * (tokens.rest.log() - log_rest),
                     .entropy = log_sum - sums.dot / sums.sum};
  if (factor == nullptr) return out;
  out.d_hidden = at::zeros(side.hidden().sizes(), side.hidden().options().dtype(at::kFloat));
  const at::Tensor of_all = log_sum.to(at::kFloat).unsqueeze(1);
  const at::Tensor of_rest = (log_sum + log_rest - tokens.rest.log()).to(at::kFloat).unsqueeze(1);
  const at::Tensor of_named = (student.exp() - weight).to(at::kFloat);
  HeadGradient gradient(side, trained, out.d_hidden);
  each_named_tile(side, [&](std::int64_t column, const at::Tensor& z) {
    const at::Tensor others = (z - of_all).exp().sub_((z - of_rest).exp());
    gradient.take(with_named(others, tokens.places(column, z.size(1)), of_named).mul(*factor), z, column);
  });
  gradient.finish();
  return out;
}

DivergenceRows run_named(const DivergenceHead& student, const TopKTeacher& teacher, double temperature,
                         const double* factor, const DivergenceTrained& trained) {
  constexpr const char* kOfNamed = "learn::top_k_divergence";
  const at::NoGradGuard no_grad;
  const std::int64_t n = student.hidden.size(0);
  base::require(student.weight.defined() && student.hidden.dim() == 2 &&
                    student.hidden.size(1) == student.weight.in() &&
                    student.hidden.scalar_type() == student.weight.dtype(),
                kOfNamed, "hidden to be [n, H] in the head's dtype");
  base::require(teacher.ids.dim() == 2 && teacher.ids.size(0) == n && teacher.ids.size(1) > 0 &&
                    teacher.ids.scalar_type() == at::kLong && teacher.logprobs.sizes() == teacher.ids.sizes(),
                kOfNamed, "ids and log-probabilities of k tokens a row");
  base::require(temperature > 0, kOfNamed, "a temperature above 0");
  const auto wide = student.hidden.options().dtype(at::kFloat);
  DivergenceRows out{.divergence = at::empty({n}, wide), .entropy = at::empty({n}, wide)};
  if (factor != nullptr) out.d_hidden = at::empty(student.hidden.sizes(), wide);
  for (std::int64_t begin = 0; begin < n; begin += kTileRows) {
    const std::int64_t count = std::min(kTileRows, n - begin);
    const at::Tensor logprobs = teacher.logprobs.narrow(0, begin, count).to(at::kDouble);
    const NamedTokens tokens{.ids = teacher.ids.narrow(0, begin, count),
                             .logprobs = logprobs,
                             .rest = (1 - logprobs.exp().sum(1)).clamp_min(kLeastTeacher)};
    const HeadSide side(student, begin, count, temperature);
    const DivergenceRows block = named_block(side, tokens, factor, trained);
    out.divergence.narrow(0, begin, count).copy_(block.divergence);
    out.entropy.narrow(0, begin, count).copy_(block.entropy);
    if (factor != nullptr) out.d_hidden.narrow(0, begin, count).copy_(block.d_hidden);
  }
  return out;
}

}  // namespace

DivergenceRows top_k_divergence(const DivergenceHead& student, const TopKTeacher& teacher,
                                double temperature) {
  return run_named(student, teacher, temperature, nullptr, {});
}

DivergenceRows top_k_gradient(const DivergenceHead& student, const TopKTeacher& teacher, double temperature,
                              double factor, const DivergenceTrained& trained) {
  return run_named(student, teacher, temperature, &factor, trained);
}

}  // namespace hone::learn
