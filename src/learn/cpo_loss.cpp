#include "learn/cpo_loss.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "learn/wide.h"

namespace hone::learn {
namespace {

// A function's value and its derivative.
struct Slope {
  double value = 0, d = 0;
};

Slope smoothed(double x, const CpoLossOptions& options) {
  const double z = options.beta * x, e = options.label_smoothing;
  return {.value = -(1 - e) * log_sigmoid(z) - e * log_sigmoid(-z),
          .d = options.beta * (e * sigmoid(z) - (1 - e) * sigmoid(-z))};
}

Slope loss_of(double x, const CpoLossOptions& options) {
  const double beta = options.beta;
  switch (options.type) {
    case CpoLossType::kSigmoid:
      return smoothed(x, options);
    case CpoLossType::kSimpo:
      return smoothed(x - options.simpo_gamma / beta, options);
    case CpoLossType::kHinge:
      return {.value = std::max(0.0, 1 - beta * x), .d = beta * x < 1 ? -beta : 0};
    case CpoLossType::kIpo: {
      const double gap = x - 1 / (2 * beta);
      return {.value = gap * gap, .d = 2 * gap};
    }
  }
  throw base::InternalError({.where = "cpo_loss", .expected = "a loss type", .found = "none of them"});
}

// f and its derivative.
Slope reward(double logp, double alpha) {
  if (alpha == 0) return {.value = logp, .d = 1};
  const double power = std::exp(-alpha * logp);
  return {.value = (1 - power) / alpha, .d = power};
}

}  // namespace

CpoLossType cpo_loss_type(std::string_view name) {
  if (name == "hinge") return CpoLossType::kHinge;
  if (name == "ipo") return CpoLossType::kIpo;
  if (name == "simpo" || name == "alphapo") return CpoLossType::kSimpo;
  base::require(name == "sigmoid", "cpo_loss_type", "a name that config/ lets through");
  return CpoLossType::kSigmoid;
}

ReferenceFreeGradient cpo_gradient(const PairLogprobs& tokens, const CpoLossOptions& options) {
  const auto term = [&](double chosen, double rejected) -> PairTerm {
    const Slope c = reward(chosen, options.alpha), r = reward(rejected, options.alpha);
    const Slope found = loss_of(c.value - r.value, options);
    return {.loss = found.value,
            .d_chosen = found.d * c.d,
            .d_rejected = -found.d * r.d,
            .reward_chosen = options.beta * c.value,
            .reward_rejected = options.beta * r.value};
  };
  return reference_free_gradient(
      tokens, {.averages = averages(options.type), .nll_weight = options.cpo_alpha, .term = term});
}

}  // namespace hone::learn
