// The losses of TRL 1.16's KTOTrainer (_compute_loss) on the log-probabilities of a micro-batch. All
// arithmetic is fp64 on the CPU.
//
//   x_i  = sum_t log p_t - the reference's sum, of row i's own completion
//   kl   = max(0, mean_j (sum_t log p_t - the reference's sum)) of the prompts with another row's completion;
//          0 for apo_zero_unpaired; no gradient
//   kto                 desirable 1 - sigmoid(beta (x - kl))      undesirable 1 - sigmoid(beta (kl - x))
//   apo_zero_unpaired   desirable 1 - sigmoid(beta x)             undesirable sigmoid(beta x)
//   loss = mean_i weight_i * loss_i
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "learn/loss_parameters.h"

namespace hone::learn {

enum class KtoLossType { kKto, kApoZeroUnpaired };
KtoLossType kto_loss_type(std::string_view name);  // by TRL's names; InternalError for others

// TRL's options and defaults (KTOConfig).
struct KtoLossOptions : KtoLossParameters {
  KtoLossType type = KtoLossType::kKto;
};

// A micro-batch of B rows. Tensors of any device and floating dtype.
struct KtoTokens {
  std::vector<std::uint8_t> desirable;  // [B]
  std::vector<std::int64_t> scored;     // [B] scored tokens of each row; n is their sum
  std::vector<double> reference;        // [B] sums of the reference
  double kl = 0;                        // mean difference of the exchanged completions, before the max
  at::Tensor logprob;                   // [n], row by row
  at::Tensor entropy, mean_logit;       // [n], for the metrics
};

struct KtoGradient {
  double loss = 0;
  at::Tensor d_logprob;  // [n] fp32 on logprob's device
  // (TRL's name, value) of the micro-batch: kl, entropy; logits/, rewards/ (beta x) and logps/ of chosen and
  // of rejected, where there are such rows; rewards/margins where there are both.
  std::vector<std::pair<std::string, double>> metrics;
};
KtoGradient kto_gradient(const KtoTokens& tokens, const KtoLossOptions& options);

}  // namespace hone::learn
