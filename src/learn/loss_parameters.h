// The numbers of the losses, by TRL's names and with its defaults: the option table (config/) fills them, and the
// losses read them. Nothing of libtorch here.
#pragma once

#include <optional>

namespace hone::learn {

// GRPOConfig; policy_loss.h has the formulas.
struct PolicyLossParameters {
  double epsilon = 0.2;
  std::optional<double> epsilon_high, delta;  // epsilon_high unset: epsilon
  double beta = 0;
  bool use_bias_correction_kl = true;
  bool mask_truncated_completions = false;
  double top_entropy_quantile = 1.0;
  double entropy_coef = 0;  // use_adaptive_entropy: of the first step
  std::optional<double> off_policy_mask_threshold;
  std::optional<double> importance_sampling_clip_min, importance_sampling_clip_max = 3.0;  // vllm_...
  double sapo_temperature_neg = 1.05, sapo_temperature_pos = 1.0;
  double vespo_k_pos = 2, vespo_lambda_pos = 3, vespo_k_neg = 3, vespo_lambda_neg = 2;

  bool operator==(const PolicyLossParameters&) const = default;
};

// SFTConfig; sft_loss.h has the formulas.
struct SftLossParameters {
  double label_smoothing_factor = 0;

  bool operator==(const SftLossParameters&) const = default;
};

// DPOConfig; preference_loss.h has the formulas.
struct PreferenceLossParameters {
  double beta = 0.1;
  double f_alpha_divergence_coef = 0.5;
  double label_smoothing = 0;
  std::optional<double> ld_alpha;
  bool use_weighting = false;
  double discopop_tau = 0.05;

  bool operator==(const PreferenceLossParameters&) const = default;
};

// KTOConfig; kto_loss.h has the formulas.
struct KtoLossParameters {
  double beta = 0.1;
  double desirable_weight = 1, undesirable_weight = 1;

  bool operator==(const KtoLossParameters&) const = default;
};

// CPOConfig; cpo_loss.h has the formulas.
struct CpoLossParameters {
  double beta = 0.1;
  double label_smoothing = 0;
  double cpo_alpha = 1;
  double simpo_gamma = 0.5;
  double alpha = 0;

  bool operator==(const CpoLossParameters&) const = default;
};

// ORPOConfig; orpo_loss.h has the formula.
struct OrpoLossParameters {
  double beta = 0.1;

  bool operator==(const OrpoLossParameters&) const = default;
};

}  // namespace hone::learn
