// The losses of TRL 1.16's experimental CPOTrainer (cpo_loss): CPO (arXiv 2401.08417), SimPO (2405.14734),
// AlphaPO (2501.03884), and hinge and ipo without a reference. What they share with ORPO is in
// reference_free_loss.h.
//
// For one pair let c and r be its two log-probabilities (sums; means for ipo and simpo), b = beta,
// e = label_smoothing, a = alpha, ls = log sigmoid:
//
//   f(x) = x;  with a not 0: (1 - exp(-a x)) / a
//   x    = f(c) - f(r);  simpo: minus simpo_gamma / b
//
//   sigmoid, simpo   -(1 - e) ls(b x) - e ls(-b x)
//   hinge            max(0, 1 - b x)
//   ipo              (x - 1 / (2 b))^2
//
//   loss    = mean over pairs + cpo_alpha * nll of chosen
//   rewards = b f(c), b f(r)
//
// TRL computes exp(-a x) as exp(x)^-a in fp32, which overflows for a sum below -103; here it does not.
#pragma once

#include <string_view>

#include "learn/loss_parameters.h"
#include "learn/reference_free_loss.h"

namespace hone::learn {

enum class CpoLossType { kSigmoid, kHinge, kIpo, kSimpo };

// By TRL's names; alphapo is simpo (and cpo_alpha 0, which config/ sees to). InternalError for others.
CpoLossType cpo_loss_type(std::string_view name);

// Whether the log-probabilities are means over tokens.
constexpr bool averages(CpoLossType type) {
  return type == CpoLossType::kIpo || type == CpoLossType::kSimpo;
}

// TRL's options and defaults (CPOConfig).
struct CpoLossOptions : CpoLossParameters {
  CpoLossType type = CpoLossType::kSigmoid;
};

// `tokens` without those of prompts (m = 0).
ReferenceFreeGradient cpo_gradient(const PairLogprobs& tokens, const CpoLossOptions& options);

}  // namespace hone::learn
