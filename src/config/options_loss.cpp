// Rows: the losses of every method but sft (DPOConfig, KTOConfig, RewardConfig, GRPOConfig, RLOOConfig,
// OnlineDPOConfig).
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr std::string_view kSyncRef = "only read with sync_ref_model, which TRL refuses with PEFT";
}  // namespace

std::vector<Option> loss_options() {
  std::vector<Option> rows;
  add(rows, {"loss", kMethodConfig, "dpo"},
      {
          Option{"loss_type",
                 "one or several of sigmoid, hinge, ipo, exo_pair, nca_pair, robust, bco_pair, "
                 "sppo_hard, aot, aot_unpaired, apo_zero, apo_down, discopop, sft, sigmoid_norm"}
              .into(&PreferencePlan::loss_type),
          Option{"loss_weights", "a weight for each loss_type; null: 1"}.into(&PreferencePlan::loss_weights),
          Option{"beta", "how strongly the reference holds; ipo's tau"}
              .into(&PreferencePlan::beta)
              .within(above(0)),
          Option{"f_divergence_type", "distance from the reference"}
              .into(&PreferencePlan::f_divergence_type)
              .choice("reverse_kl forward_kl js_divergence alpha_divergence"),
          Option{"f_alpha_divergence_coef", "alpha_divergence: alpha"}.into(
              &PreferencePlan::f_alpha_divergence_coef),
          Option{"label_smoothing",
                 "robust and aot: share of labels that may be flipped; exo_pair: its epsilon, above 0"}
              .into(&PreferencePlan::label_smoothing)
              .within(fraction()),
          Option{"ld_alpha", "LD-DPO: weight of tokens beyond the shorter completion's length; null: 1"}
              .into(&PreferencePlan::ld_alpha)
              .within({.least = 0, .most = 1}),
          Option{"use_weighting", "WPO: weigh pairs by how likely the policy itself would write them"}.into(
              &PreferencePlan::use_weighting),
          Option{"discopop_tau", "discopop: temperature"}
              .into(&PreferencePlan::discopop_tau)
              .within(above(0)),
      });
  add(rows, {"loss", kMethodConfig, kPoliciesAndDistillation},
      {
          Option{"beta", "weight of the distance from the reference; 0: none is computed"}
              .into(&PolicyPlan::beta)
              .within(at_least(0))
              .formerly("kl_coef")
              .in("rloo", {.default_text = "0.05"}),
      });
  add(rows, {"loss", kMethodConfig, kPolicies},
      {
          Option{"epsilon", "lower clip of the ratio: 1 - epsilon"}
              .into(&PolicyPlan::epsilon)
              .within(at_least(0))
              .formerly("cliprange"),
          Option{"epsilon_high", "upper clip: 1 + epsilon_high; null: epsilon"}
              .into(&PolicyPlan::epsilon_high)
              .within(at_least(0)),
          Option{"mask_truncated_completions", "completions without an end do not train"}.into(
              &PolicyPlan::mask_truncated_completions),
      });
  add(rows, {"loss", kMethodConfig, "kto"},
      {
          Option{"loss_type", "the loss; apo_zero_unpaired estimates no KL"}
              .into(&KtoPlan::loss_type)
              .choice("kto apo_zero_unpaired"),
          Option{"beta", "how strongly the reference holds"}.into(&KtoPlan::beta).within(above(0)),
          Option{"desirable_weight", "weight of the losses of desirable completions"}
              .into(&KtoPlan::desirable_weight)
              .within(at_least(0)),
          Option{"undesirable_weight", "weight of the losses of undesirable completions"}
              .into(&KtoPlan::undesirable_weight)
              .within(at_least(0)),
      });
  add(rows, {"loss", kMethodConfig, "dpo, kto"},
      {
          Option{"precompute_ref_log_probs", "compute the reference of every pair once, before step 1"}
              .into(&ReferencePlan::precompute_ref_log_probs)
              .in("kto", {.meaning = "compute the reference of every row once, before step 1"}),
          Option{"precompute_ref_batch_size",
                 "pairs at a time for that; null: per_device_train_batch_size, and "
                 "per_device_eval_batch_size"}
              .into(&ReferencePlan::precompute_ref_batch_size)
              .within(at_least(1))
              .in("kto", {.meaning = "rows at a time for that; null: per_device_train_batch_size, and "
                                     "per_device_eval_batch_size"}),
      });
  add(rows, {"loss", kMethodConfig, "dpo, grpo, rloo, kto"},
      {
          Option{"sync_ref_model", "move the reference towards the policy", Kind::kBool, "false"}.refused(
              "TRL refuses it with PEFT: the reference is the model without its adapter"),
          Option{"ref_model_mixup_alpha", "share of the policy", Kind::kFloat, "0.6"}.ignored(kSyncRef),
          Option{"ref_model_sync_steps", "steps between moves", Kind::kInt, "512"}.ignored(kSyncRef),
      });
  add(rows, {"loss", kMethodConfig, "grpo"},
      {
          Option{"loss_type", "the loss, as TRL names it"}
              .into(&PolicyPlan::loss_type)
              .choice("dapo grpo bnpo dr_grpo cispo luspo sapo vespo")
              .in("grpo", {.after = "ref_model_sync_steps"}),
          Option{"importance_sampling_level", "one ratio a token, or a sequence (GSPO)"}
              .into(&PolicyPlan::importance_sampling_level)
              .choice("token sequence"),
          Option{"scale_rewards",
                 "divide advantages by the spread of the group, of the batch, or not; true: group, "
                 "false: none"}
              .into(&PolicyPlan::scale_rewards)
              .choice("group batch none true false"),
          Option{"multi_objective_aggregation",
                 "of several rewards: sum and then normalize, or each on its own first (GDPO)"}
              .into(&PolicyPlan::multi_objective_aggregation)
              .choice("sum_then_normalize normalize_then_sum"),
          Option{"delta", "cap of the ratio where the clip does not reach (two-sided clip)"}
              .into(&PolicyPlan::delta)
              .within(above(0)),
          Option{"sapo_temperature_neg", "sapo: where the advantage is not positive"}
              .into(&PolicyPlan::sapo_temperature_neg)
              .within(above(0)),
          Option{"sapo_temperature_pos", "sapo: where the advantage is positive"}
              .into(&PolicyPlan::sapo_temperature_pos)
              .within(above(0)),
          Option{"vespo_k_pos", "vespo: power, advantage at least 0"}.into(&PolicyPlan::vespo_k_pos),
          Option{"vespo_lambda_pos", "vespo: decay, advantage at least 0"}.into(
              &PolicyPlan::vespo_lambda_pos),
          Option{"vespo_k_neg", "vespo: power, advantage below 0"}.into(&PolicyPlan::vespo_k_neg),
          Option{"vespo_lambda_neg", "vespo: decay, advantage below 0"}.into(&PolicyPlan::vespo_lambda_neg),
          Option{"use_bias_correction_kl", "multiply the distance by the ratio"}.into(
              &PolicyPlan::use_bias_correction_kl),
          Option{"top_entropy_quantile", "train on this share of tokens, the most uncertain"}
              .into(&PolicyPlan::top_entropy_quantile)
              .within({.least = 0, .most = 1}),
          Option{"entropy_coef", "weight of the entropy, which is added to what is learned"}.into(
              &PolicyPlan::entropy_coef),
          Option{"use_adaptive_entropy", "move entropy_coef towards entropy_target"}.into(
              &PolicyPlan::use_adaptive_entropy),
          Option{"entropy_coef_min", "adaptive: lower bound"}.into(&PolicyPlan::entropy_coef_min),
          Option{"entropy_coef_max", "adaptive: upper bound"}.into(&PolicyPlan::entropy_coef_max),
          Option{"entropy_coef_delta", "adaptive: a step's change"}
              .into(&PolicyPlan::entropy_coef_delta)
              .within(at_least(0)),
          Option{"entropy_target", "adaptive: nats a token"}.into(&PolicyPlan::entropy_target),
          Option{"off_policy_mask_threshold",
                 "leave out sequences with a negative advantage that have moved further than this"}
              .into(&PolicyPlan::off_policy_mask_threshold)
              .within(at_least(0)),
          Option{"vllm_importance_sampling_correction",
                 "weigh by trainer / sampler; only when it is set: TRL corrects vLLM, here the "
                 "sampler is the trainer"}
              .into(&PolicyPlan::importance_sampling_correction)
              .defaults("true"),
          Option{"vllm_importance_sampling_mode", "how to weigh"}
              .into(&PolicyPlan::importance_sampling_mode)
              .choice("sequence_mask sequence_truncate token_mask token_truncate"),
          Option{"vllm_importance_sampling_clip_max", "largest weight; null: none"}
              .into(&PolicyPlan::importance_sampling_clip_max)
              .null_too()
              .within(above(0)),
          Option{"vllm_importance_sampling_clip_min", "smallest weight; null: none"}
              .into(&PolicyPlan::importance_sampling_clip_min)
              .within(at_least(0)),
          Option{"vllm_importance_sampling_cap",
                 "former name of vllm_importance_sampling_clip_max, which it replaces", Kind::kFloat, "null"}
              .within(above(0)),
      });
  add(rows, {"loss", kMethodConfig, "rloo"},
      {
          Option{"normalize_advantages", "divide advantages by the batch's spread"}.into(
              &PolicyPlan::normalize_advantages),
          Option{"reward_clip_range", "bounds of the summed reward: two numbers"}.into(
              &PolicyPlan::reward_clip_range),
      });
  add(rows, {"loss", kMethodConfig, "reward"},
      {
          Option{"center_rewards_coefficient",
                 "weight of (chosen + rejected)^2, which holds scores around 0; 0.01 is a common choice"}
              .into(&RewardModelPlan::center_rewards_coefficient)
              .within(at_least(0))
              .formerly("center_rewards"),
      });
  add(rows, {"loss", kMethodConfig, "online-dpo"},
      {
          Option{"loss_type", "the loss, as TRL names it"}
              .into(&OnlineDpoPlan::loss_type)
              .choice("sigmoid ipo"),
          Option{"beta",
                 "how strongly the reference holds (ipo's tau); a list: one an epoch, the last for "
                 "those that follow"}
              .into(&OnlineDpoPlan::beta),
          Option{"missing_eos_penalty", "taken off the score of a completion that does not end"}
              .into(&OnlineDpoPlan::missing_eos_penalty)
              .within(above(0)),
      });
  add(rows, {"loss", kHone, "online-dpo"},
      {
          Option{"skip_ties",
                 "pairs of equal scores do not train; false: their first completion is the better"}
              .into(&OnlineDpoPlan::skip_ties),
      });
  return rows;
}

}  // namespace hone::config
