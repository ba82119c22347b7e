// Rows: the losses of every method but sft (DPOConfig, KTOConfig, RewardConfig, GRPOConfig, RLOOConfig,
// OnlineDPOConfig, DistillationConfig).
#include "config/option_table.h"

namespace hone::config {
namespace {

// DPOConfig.
void add_dpo_loss(std::vector<Option>& rows) {
  add(rows, {"loss", kMethodConfig, "dpo"},
      {{"loss_type",
        "one or several of sigmoid, hinge, ipo, exo_pair, nca_pair, robust, bco_pair, sppo_hard, aot, "
        "aot_unpaired, apo_zero, apo_down, discopop, sft, sigmoid_norm",
        &PreferencePlan::loss_type},
       {"loss_weights", "a weight for each loss_type; null: 1", &PreferencePlan::loss_weights},
       {"beta", "strength of the regularization toward the reference; ipo's tau", &PreferencePlan::beta,
        above(0)},
       {"f_divergence_type", "distance from the reference", &PreferencePlan::f_divergence_type,
        choice("reverse_kl forward_kl js_divergence alpha_divergence")},
       {"f_alpha_divergence_coef", "alpha_divergence: alpha", &PreferencePlan::f_alpha_divergence_coef,
        with("f_divergence_type", "alpha_divergence")},
       {"label_smoothing",
        "robust and aot: share of labels that may be flipped; exo_pair: its epsilon, above 0",
        &PreferencePlan::label_smoothing, fraction(),
        with("loss_type", "robust, exo_pair, aot, aot_unpaired")},
       {"ld_alpha", "LD-DPO: weight of tokens beyond the shorter completion's length; null: 1",
        &PreferencePlan::ld_alpha, Range{.least = 0, .most = 1}},
       {"use_weighting", "WPO: weight pairs by their likelihood under the policy",
        &PreferencePlan::use_weighting},
       {"discopop_tau", "discopop: temperature", &PreferencePlan::discopop_tau, above(0),
        with("loss_type", "discopop")}});
}

// What GRPO and RLOO share.
void add_policy_loss(std::vector<Option>& rows) {
  add(rows, {"loss", kMethodConfig, kPolicies},
      {{"beta", "weight of the KL to the reference; 0: it is not computed", &PolicyPlan::beta, at_least(0),
        formerly("kl_coef"), in("rloo", {.default_text = "0.05"})}});
  add(rows, {"loss", kMethodConfig, kPolicies},
      {{"epsilon", "lower clip of the ratio: 1 - epsilon", &PolicyPlan::epsilon, at_least(0),
        formerly("cliprange"),
        in("grpo",
           {.meaning =
                "lower clip of the ratio: 1 - epsilon; gmpo: exp(-epsilon), and 0.4 unless it is set"})},
       {"epsilon_high", "upper clip: 1 + epsilon_high; null: epsilon", &PolicyPlan::epsilon_high, at_least(0),
        in("grpo", {.meaning = "upper clip: 1 + epsilon_high; gmpo: exp(epsilon_high); null: epsilon"})},
       {"mask_truncated_completions", "leave truncated completions out of the loss",
        &PolicyPlan::mask_truncated_completions}});
}

// KTOConfig.
void add_kto_loss(std::vector<Option>& rows) {
  add(rows, {"loss", kMethodConfig, "kto"},
      {{"loss_type", "the loss; apo_zero_unpaired estimates no KL", &KtoPlan::loss_type,
        choice("kto apo_zero_unpaired")},
       {"beta", "strength of the regularization toward the reference", &KtoPlan::beta, above(0)},
       {"desirable_weight", "weight of the losses of desirable completions", &KtoPlan::desirable_weight,
        at_least(0)},
       {"undesirable_weight", "weight of the losses of undesirable completions", &KtoPlan::undesirable_weight,
        at_least(0)}});
}

// The reference of DPO, KTO, GRPO, RLOO and Online DPO.
void add_reference(std::vector<Option>& rows) {
  add(rows, {"loss", kHone, "dpo, kto, online-dpo"},
      {{"ref_model",
        "the reference: a model folder, a .gguf file, or a name of the hub; null: the model as the run begins",
        &ReferencePlan::ref_model},
       {"ref_model_dtype", "dtype of ref_model's weights; same: as dtype", Kind::kChoice, "\"same\"",
        choice("same float32 bfloat16")}});
  add(rows, {"loss", kMethodConfig, "dpo, kto"},
      {{"precompute_ref_log_probs", "compute the reference of every pair once, before step 1",
        &ReferencePlan::precompute_ref_log_probs,
        in("kto", {.meaning = "compute the reference of every row once, before step 1"})},
       {"precompute_ref_batch_size",
        "pairs at a time for that; null: per_device_train_batch_size, and per_device_eval_batch_size",
        &ReferencePlan::precompute_ref_batch_size, at_least(1),
        in("kto",
           {.meaning =
                "rows at a time for that; null: per_device_train_batch_size, and per_device_eval_batch_size"}),
        with("precompute_ref_log_probs")}});
  add(rows, {"loss", kMethodConfig, "dpo, grpo, rloo, kto"},
      {{"sync_ref_model", "with use_peft: false, move the reference towards the policy",
        &ReferencePlan::sync_ref_model},
       {"ref_model_mixup_alpha", "share of the policy in the moved reference",
        &ReferencePlan::ref_model_mixup_alpha, Range{.least = 0, .most = 1}, with("sync_ref_model")},
       {"ref_model_sync_steps", "steps between moves", &ReferencePlan::ref_model_sync_steps, at_least(1),
        with("sync_ref_model")}});
}

// GRPO's loss types and advantages.
void add_grpo_loss(std::vector<Option>& rows) {
  add(rows, {"loss", kMethodConfig, "grpo"},
      {{"loss_type", "the loss, as TRL names it", &PolicyPlan::loss_type,
        choice("dapo grpo bnpo dr_grpo cispo luspo sapo vespo gmpo"),
        in("grpo", {.after = "ref_model_sync_steps"})},
       {"importance_sampling_level", "one ratio a token, or a sequence (GSPO)",
        &PolicyPlan::importance_sampling_level, choice("token sequence")},
       {"scale_rewards",
        "divide advantages by the standard deviation of the group, of the batch, or not at all; true: "
        "group, false: none",
        &PolicyPlan::scale_rewards, choice("group batch none true false")},
       {"multi_objective_aggregation",
        "with several rewards: sum, then normalize; or normalize each first (GDPO)",
        &PolicyPlan::multi_objective_aggregation, choice("sum_then_normalize normalize_then_sum")},
       {"delta", "upper bound of the unclipped ratio (two-sided clip)", &PolicyPlan::delta, above(0)},
       {"sapo_temperature_neg", "sapo: temperature where the advantage is not positive",
        &PolicyPlan::sapo_temperature_neg, above(0), with("loss_type", "sapo")},
       {"sapo_temperature_pos", "sapo: temperature where the advantage is positive",
        &PolicyPlan::sapo_temperature_pos, above(0), with("loss_type", "sapo")},
       {"vespo_k_pos", "vespo: power, advantage at least 0", &PolicyPlan::vespo_k_pos,
        with("loss_type", "vespo")},
       {"vespo_lambda_pos", "vespo: decay, advantage at least 0", &PolicyPlan::vespo_lambda_pos,
        with("loss_type", "vespo")},
       {"vespo_k_neg", "vespo: power, advantage below 0", &PolicyPlan::vespo_k_neg,
        with("loss_type", "vespo")},
       {"vespo_lambda_neg", "vespo: decay, advantage below 0", &PolicyPlan::vespo_lambda_neg,
        with("loss_type", "vespo")},
       {"use_bias_correction_kl", "multiply the KL by the importance ratio",
        &PolicyPlan::use_bias_correction_kl}});
}

void add_grpo_entropy(std::vector<Option>& rows) {
  add(rows, {"loss", kMethodConfig, "grpo"},
      {{"top_entropy_quantile", "train only on this fraction of tokens, those with the highest entropy",
        &PolicyPlan::top_entropy_quantile, Range{.least = 0, .most = 1}},
       {"entropy_coef", "weight of the entropy bonus", &PolicyPlan::entropy_coef},
       {"use_adaptive_entropy", "move entropy_coef towards entropy_target",
        &PolicyPlan::use_adaptive_entropy},
       {"entropy_coef_min", "adaptive: lower bound", &PolicyPlan::entropy_coef_min,
        with("use_adaptive_entropy")},
       {"entropy_coef_max", "adaptive: upper bound", &PolicyPlan::entropy_coef_max,
        with("use_adaptive_entropy")},
       {"entropy_coef_delta", "adaptive: change per step", &PolicyPlan::entropy_coef_delta, at_least(0),
        with("use_adaptive_entropy")},
       {"entropy_target", "adaptive: target entropy, in nats per token", &PolicyPlan::entropy_target,
        with("use_adaptive_entropy")}});
}

// What GRPO does about tokens that another policy sampled.
void add_grpo_off_policy(std::vector<Option>& rows) {
  add(rows, {"loss", kMethodConfig, "grpo"},
      {{"off_policy_mask_threshold",
        "leave out sequences with a negative advantage whose mean KL from the sampling policy exceeds "
        "this",
        &PolicyPlan::off_policy_mask_threshold, at_least(0)},
       {"vllm_importance_sampling_correction",
        "weight by the ratio trainer / sampler; off unless set: TRL corrects for vLLM, here the "
        "trainer itself samples",
        &PolicyPlan::importance_sampling_correction, "true"},
       {"vllm_importance_sampling_mode", "form of these weights", &PolicyPlan::importance_sampling_mode,
        choice("sequence_mask sequence_truncate token_mask token_truncate")},
       {"vllm_importance_sampling_clip_max", "largest weight; null: none",
        &PolicyPlan::importance_sampling_clip_max, kNullToo, above(0)},
       {"vllm_importance_sampling_clip_min", "smallest weight; null: none",
        &PolicyPlan::importance_sampling_clip_min, at_least(0)},
       {"vllm_importance_sampling_cap", "former name of vllm_importance_sampling_clip_max, which it replaces",
        Kind::kFloat, "null", above(0)}});
}

// RLOOConfig.
void add_rloo_loss(std::vector<Option>& rows) {
  add(rows, {"loss", kMethodConfig, "rloo"},
      {{"normalize_advantages", "divide advantages by the batch's standard deviation",
        &PolicyPlan::normalize_advantages},
       {"reward_clip_range", "bounds of the summed reward: two numbers", &PolicyPlan::reward_clip_range}});
}

// RewardConfig.
void add_reward_model_loss(std::vector<Option>& rows) {
  add(rows, {"loss", kMethodConfig, "reward"},
      {{"center_rewards_coefficient",
        "weight of (chosen + rejected)^2, which keeps scores around 0; 0.01 is a common choice",
        &RewardModelPlan::center_rewards_coefficient, at_least(0), formerly("center_rewards")}});
}

// DistillationConfig.
void add_distillation(std::vector<Option>& rows) {
  add(rows, {"loss", kMethodConfig, "distill"},
      {{"beta",
        "the divergence: 0 is KL(teacher, student), 1 is KL(student, teacher), between them a mixture's",
        &DistillPlan::beta, Range{.least = 0, .most = 1}, with("loss_type", "divergence")},
       {"teacher_model_name_or_path",
        "the teacher: a model folder, a .gguf file, or a name of the hub; as model_name_or_path: the model without its adapter",
        &ReferencePlan::ref_model},
       {"teacher_model_revision", "branch, tag or commit, where the teacher is named as on the hub",
        Kind::kString, "null"},
       {"teacher_model_init_kwargs", "keyword arguments of from_pretrained for the teacher: dtype",
        Kind::kMap, "null"}});
  add(rows, {"loss", kHone, "distill"},
      {{"teacher_quantization", "quantize the teacher's linears; none: they are as they were saved",
        Kind::kChoice, "\"none\"", choice("none nf4 fp4 int8")},
       {"teacher_model_server_url",
        "the teacher is the model of this server (hone serve), which is asked for log-probabilities: http://127.0.0.1:8000",
        &DistillPlan::teacher_model_server_url},
       {"loss_type",
        "divergence of whole distributions; sampled: a policy gradient at the sampled tokens alone; top_k: KL(teacher, "
        "student) of a server's most likely tokens",
        &DistillPlan::loss_type, choice("divergence sampled top_k")},
       {"loss_top_k", "top_k: so many tokens, and all others together as one more", &DistillPlan::loss_top_k,
        Range{.least = 1, .most = 20}, with("loss_type", "top_k")},
       {"kl_penalty_coef", "sampled: factor of the difference of log-probabilities",
        &DistillPlan::kl_penalty_coef, above(0), with("loss_type", "sampled")},
       {"kl_discount_factor", "sampled: how much the differences of later tokens count for a token",
        &DistillPlan::kl_discount_factor, Range{.least = 0, .most = 1}, with("loss_type", "sampled")},
       {"lmbda",
        "share of micro-batches whose completions the model samples; the others have those of the data (GKD)",
        &DistillPlan::lmbda, Range{.least = 0, .most = 1}},
       {"seq_kd", "the teacher samples where the model does not (GKD)", &DistillPlan::seq_kd},
       {"loss_temperature", "divides the logits of both models in the loss; null: temperature (GKD has 1)",
        &DistillPlan::loss_temperature, above(0)}});
}

// OnlineDPOConfig.
void add_online_dpo_loss(std::vector<Option>& rows) {
  add(rows, {"loss", kMethodConfig, "online-dpo"},
      {{"loss_type", "the loss, as TRL names it", &OnlineDpoPlan::loss_type, choice("sigmoid ipo")},
       {"beta",
        "strength of the regularization toward the reference (ipo's tau); a list: one per epoch, the "
        "last for later epochs",
        &OnlineDpoPlan::beta},
       {"missing_eos_penalty", "subtracted from the score of a completion that does not end",
        &OnlineDpoPlan::missing_eos_penalty, above(0)}});
  add(rows, {"loss", kHone, "online-dpo"},
      {{"skip_ties",
        "do not train on pairs with equal scores; false: the first completion counts as the better one",
        &OnlineDpoPlan::skip_ties}});
}

}  // namespace

std::vector<Option> loss_options() {
  std::vector<Option> rows;
  add_dpo_loss(rows);
  add_policy_loss(rows);
  add_kto_loss(rows);
  add_reference(rows);
  add_grpo_loss(rows);
  add_grpo_entropy(rows);
  add_grpo_off_policy(rows);
  add_rloo_loss(rows);
  add_reward_model_loss(rows);
  add_online_dpo_loss(rows);
  add_distillation(rows);
  return rows;
}

}  // namespace hone::config
