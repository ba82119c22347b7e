// Losses: functions of the log-probabilities of an example's targets, and their derivatives.
//
//   hone::Loss mine = [](std::span<const float> logprobs, const hone::Example& example) {
//     hone::LossValue out{.loss = 0, .d_logprob = std::vector<float>(logprobs.size())};
//     ...
//     return out;
//   };
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "hone/data.h"

namespace hone {

struct LossValue {
  double loss = 0;
  std::vector<float> d_logprob;  // [N], d loss / d log-probability of each target
};

// `logprobs` [N]: the natural logarithms of p(targets[i]) at temperature 1. What it throws comes out of the
// step, whose gradient is then as it was.
using Loss = std::function<LossValue(std::span<const float> logprobs, const Example& example)>;

// With l the log-probabilities, w weights, q the example's logprobs, A advantages and r = exp(l - q). Each is
// a sum over the targets. A UserError in a step if a list has another length than the targets, or if the
// result is not finite.
Loss cross_entropy();                 // -sum w l
Loss importance_sampling();           // -sum r A
Loss ppo(double low, double high);    // -sum min(r A, clip(r, low, high) A)
Loss cispo(double low, double high);  // -sum stop_gradient(clip(r, low, high)) A l
Loss dro(double beta);                // -sum (A l - beta / 2 (l - q)^2)

}  // namespace hone
