#include "hone/loss.h"

#include <cmath>

#include "hone/error.h"
#include "serve/training/losses.h"

namespace hone {
namespace {

void require_list(const std::vector<float>& list, const char* name, const Example& example) {
  if (list.size() == example.targets.size()) return;
  throw UserError({.where = std::string("hone::Example::") + name,
                   .expected = std::to_string(example.targets.size()) + " numbers, one for each target",
                   .found = std::to_string(list.size()),
                   .cause = {},
                   .fix = {}});
}

// One of the losses of a server for training, which has the formulas.
Loss ready(const serve::LossSpec& spec) {
  return [spec](std::span<const float> logprobs, const Example& example) {
    serve::Datum datum{.tokens = {}, .targets = example.targets};
    if (spec.kind == serve::LossKind::kCrossEntropy) {
      require_list(example.weights, "weights", example);
      datum.weights = example.weights;
    } else {
      require_list(example.logprobs, "logprobs", example);
      require_list(example.advantages, "advantages", example);
      datum.logprobs = example.logprobs;
      datum.advantages = example.advantages;
    }
    serve::LossOfDatum of = serve::loss_of(spec, datum, logprobs);
    return LossValue{.loss = of.loss, .d_logprob = std::move(of.d_logprob)};
  };
}

Loss between(serve::LossKind kind, double low, double high, const char* name) {
  if (!(low >= 0 && high >= low && std::isfinite(high))) {
    throw UserError({.where = std::string("hone::") + name,
                     .expected = "0 <= low <= high",
                     .found = std::to_string(low) + " and " + std::to_string(high),
                     .cause = "they bound the ratio itself: 0.8 and 1.2, not 0.2",
                     .fix = {}});
  }
  return ready({.kind = kind, .low = low, .high = high});
}

}  // namespace

Loss cross_entropy() {
  return ready({.kind = serve::LossKind::kCrossEntropy});
}

Loss importance_sampling() {
  return ready({.kind = serve::LossKind::kImportanceSampling});
}

Loss ppo(double low, double high) {
  return between(serve::LossKind::kPpo, low, high, "ppo");
}

Loss cispo(double low, double high) {
  return between(serve::LossKind::kCispo, low, high, "cispo");
}

Loss dro(double beta) {
  if (!(beta >= 0 && std::isfinite(beta))) {
    throw UserError({.where = "hone::dro",
                     .expected = "beta from 0",
                     .found = std::to_string(beta),
                     .cause = {},
                     .fix = {}});
  }
  return ready({.kind = serve::LossKind::kDro, .beta = beta});
}

}  // namespace hone
