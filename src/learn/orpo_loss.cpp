#include "learn/orpo_loss.h"

#include <algorithm>
#include <cmath>

#include "learn/wide.h"

namespace hone::learn {
namespace {

constexpr double kMostCertain = -1e-12;

// log(1 - exp(x)) for x below 0, without cancellation (Maechler, "Accurately Computing log(1 - exp(-|a|))").
double log1mexp(double x) {
  return x < -0.6931471805599453 ? std::log1p(-std::exp(x)) : std::log(-std::expm1(x));
}

}  // namespace

ReferenceFreeGradient orpo_gradient(const PairLogprobs& tokens, const OrpoLossParameters& options) {
  double ratio = 0, odds = 0;
  const auto term = [&](double chosen, double rejected) -> PairTerm {
    const double c = std::min(chosen, kMostCertain), r = std::min(rejected, kMostCertain);
    const double x = (c - r) - (log1mexp(c) - log1mexp(r));
    ratio += log_sigmoid(x);
    odds += x;
    // d x / d c = 1 / (1 - exp c)
    const double slope = -options.beta * sigmoid(-x);
    return {.loss = -options.beta * log_sigmoid(x),
            .d_chosen = slope / -std::expm1(c),
            .d_rejected = -slope / -std::expm1(r),
            .reward_chosen = options.beta * chosen,
            .reward_rejected = options.beta * rejected};
  };
  ReferenceFreeGradient out =
      reference_free_gradient(tokens, {.averages = true, .nll_weight = 1, .term = term});
  const auto pairs = static_cast<double>(tokens.scored.size() / 2);
  out.metrics.emplace_back("log_odds_ratio", ratio / pairs);
  out.metrics.emplace_back("log_odds_chosen", odds / pairs);
  return out;
}

}  // namespace hone::learn
