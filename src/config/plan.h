// Plan: one run, described and resolved. Field names are TRL's option names; the table in option_table.h
// gives each its type, default and meaning. Plain data: copied freely, compared in tests, written as
// plan.yaml.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hone::config {

enum class Method { kSft, kGrpo, kRloo, kDpo, kOnlineDpo, kReward, kKto };

// Methods that sample completions themselves: they have a PolicyPlan.
constexpr bool samples(Method method) {
  return method == Method::kGrpo || method == Method::kRloo || method == Method::kOnlineDpo;
}

// How numbers are kept and multiplied (docs/options.md, Precision); resolved from `dtype` and `bf16`.
enum class Precision {
  kFloat32,   // dtype float32, bf16 false: everything fp32, the parity mode
  kAutocast,  // dtype float32, bf16 true (TRL's default): frozen linears and GEMMs bf16, the rest fp32
  kBFloat16,  // dtype bfloat16 or auto: bf16 stored, fp32 inside norms, softmax and loss
};

enum class IntervalStrategy { kNo, kSteps, kEpoch };       // *_strategy options
enum class LoraInit { kTrue, kGaussian, kFalse, kPissa };  // init_lora_weights
// What the backward computes again (model/fused_layer.h); the results are bit-equal. kAuto: the first
// level in this order whose planned peak fits memory_limit (train/memory_plan.h).
enum class RecomputeMode { kAuto, kNone, kCheap, kLayer };
// load_in_4bit with bnb_4bit_quant_type, or load_in_8bit.
enum class QuantizedBase { kNone, kNf4, kFp4, kInt8 };
enum class LayerForm { kAuto, kFused, kAutograd };  // kAuto: explicit where it can
enum class OnFault { kWarn, kPause, kStop };        // what the doctor's watch does about a failure
enum class PackingStrategy { kBfd };
enum class Scheduler { kLinear, kCosine, kConstant, kConstantWithWarmup };

// What GRPO and RLOO have beyond SFT: fields of TRL's GRPOConfig, RLOOConfig and GRPOScriptArguments by their
// names, with GRPOConfig's defaults (the option tables hold each method's own). Of RLOO, fields that it does
// not have say what it does: loss_type "rloo", importance_sampling_level "sequence", scale_rewards "none".
struct PolicyPlan {
  // batches, in sequences (completions); resolved, so that generation_batch_size =
  // per_device_train_batch_size * steps_per_generation and num_generations divides it
  std::int64_t num_generations = 8;
  std::int64_t num_generations_eval = 8;
  std::int64_t generation_batch_size = 8;
  std::int64_t steps_per_generation = 1;
  std::int64_t num_iterations = 1;

  // sampling; generation_kwargs may set min_new_tokens, stop_strings and stop_token_ids besides
  std::int64_t max_completion_length = 512;
  double temperature = 1.0;
  double top_p = 1.0;
  std::int64_t top_k = 0;
  double min_p = 0;
  double repetition_penalty = 1.0;
  std::int64_t min_new_tokens = 0;
  std::vector<std::string> stop_strings;
  std::vector<std::int64_t> stop_token_ids;  // beside the model's own
  std::string chat_template_kwargs;          // JSON object; empty: none
  std::int64_t kv_memory = 0;  // bytes for keys and values while sampling; 0: what the plan leaves

  // loss
  std::string loss_type = "dapo";  // grpo bnpo dr_grpo dapo cispo luspo sapo vespo; rloo's: "rloo"
  std::string importance_sampling_level = "token";                 // or sequence
  std::string scale_rewards = "group";                             // group batch none
  std::string multi_objective_aggregation = "sum_then_normalize";  // or normalize_then_sum
  double beta = 0;
  double epsilon = 0.2;
  std::optional<double> epsilon_high, delta;  // epsilon_high is resolved: epsilon where it is not set
  bool use_bias_correction_kl = true;
  bool mask_truncated_completions = false;
  double top_entropy_quantile = 1.0;
  double entropy_coef = 0;
  bool use_adaptive_entropy = false;
  double entropy_coef_min = 0, entropy_coef_max = 1, entropy_coef_delta = 0.005, entropy_target = 0.2;
  std::optional<double> off_policy_mask_threshold;
  double sapo_temperature_neg = 1.05, sapo_temperature_pos = 1.0;
  double vespo_k_pos = 2, vespo_lambda_pos = 3, vespo_k_neg = 3, vespo_lambda_neg = 2;
  // TRL's vllm_importance_sampling_*. TRL corrects under vLLM alone; here the sampler is the trainer, so that
  // the correction is on only where it is asked for.
  bool importance_sampling_correction = false;
  std::string importance_sampling_mode = "sequence_mask";  // token|sequence _ mask|truncate
  std::optional<double> importance_sampling_clip_min, importance_sampling_clip_max = 3.0;
  bool normalize_advantages = false;                           // RLOO
  std::optional<std::pair<double, double>> reward_clip_range;  // RLOO

  // rewards (rewards/open_reward.h)
  std::vector<std::string> reward_funcs;  // reward_model_name_or_path first; none only with replay
  std::vector<double> reward_weights;     // empty: all 1
  std::string python = "python3";
  std::int64_t reward_workers = 1;
  double reward_timeout = 60;  // seconds a call

  // ours
  std::string replay;          // a file of rollouts (train/rollout_batch.h) instead of sampling and rewards
  bool dump_rollouts = false;  // write output_dir/rollouts.jsonl in that form

  // seeing
  bool log_completions = false;
  std::int64_t num_completions_to_print = 0;  // 0: all
  bool log_unique_prompts = false;

  bool operator==(const PolicyPlan&) const = default;
};

// What DPO has beyond SFT: fields of TRL's DPOConfig by their names, with its defaults.
struct PreferencePlan {
  // sigmoid hinge ipo exo_pair nca_pair robust bco_pair sppo_hard aot aot_unpaired apo_zero apo_down discopop
  // sft sigmoid_norm
  std::vector<std::string> loss_type = {"sigmoid"};
  std::vector<double> loss_weights;  // empty: all 1
  double beta = 0.1;
  std::string f_divergence_type = "reverse_kl";  // forward_kl js_divergence alpha_divergence
  double f_alpha_divergence_coef = 0.5;
  double label_smoothing = 0;
  std::optional<double> ld_alpha;
  bool use_weighting = false;
  double discopop_tau = 0.05;
  std::string truncation_mode = "keep_start";  // or keep_end

  bool operator==(const PreferencePlan&) const = default;
};

// What Online DPO has beside a PolicyPlan (two generations, a generation batch a step; its loss fields stay
// untouched): fields of TRL's OnlineDPOConfig by their names, with its defaults. max_length is Plan's.
struct OnlineDpoPlan {
  std::string loss_type = "sigmoid";  // or ipo
  std::vector<double> beta = {0.1};   // of each epoch; the last one's for those that follow
  std::optional<double> missing_eos_penalty;

  // ours
  bool skip_ties = false;   // pairs of equal scores do not train; false: their first completion is the better
  std::string judge;        // rewards/http/judge.h, in the place of rewards; empty: none
  std::string judge_model;  // that an endpoint is asked for
  std::string judge_prompt;  // what it is asked; empty: judge.h's

  bool operator==(const OnlineDpoPlan&) const = default;
};

// What training a reward model has beyond SFT: fields of TRL's RewardConfig by their names, with its
// defaults.
struct RewardModelPlan {
  std::optional<double> center_rewards_coefficient;
  std::string pad_token;  // a score is that of the last token that is another; empty: the tokenizer's

  bool operator==(const RewardModelPlan&) const = default;
};

// What KTO has beyond SFT: fields of TRL's KTOConfig by their names, with its defaults.
struct KtoPlan {
  std::string loss_type = "kto";  // or apo_zero_unpaired
  double beta = 0.1;
  double desirable_weight = 1, undesirable_weight = 1;

  bool operator==(const KtoPlan&) const = default;
};

struct ModelPlan {
  std::string model_name_or_path;  // folder in Hugging Face format, or a .gguf file
  Precision precision = Precision::kAutocast;
  QuantizedBase quantized_base = QuantizedBase::kNone;
  bool use_bnb_nested_quant = false;  // 4-bit only: the scales are quantized too

  bool operator==(const ModelPlan&) const = default;
};

struct AdapterPlan {
  bool use_peft = false;
  std::int64_t lora_r = 16;
  double lora_alpha = 32;
  double lora_dropout = 0.05;
  bool disable_dropout = false;  // every method but sft: lora_dropout is 0, a continued adapter's too
  // one element: a regex or "all-linear", as PEFT treats a string
  std::vector<std::string> lora_target_modules;
  std::vector<std::string> lora_exclude_modules;
  std::vector<std::int64_t> trainable_token_indices;
  std::string trainable_token_module;  // of its mapping form, "embed_tokens"; empty: the list form
  bool use_rslora = false;
  bool use_dora = false;
  LoraInit init_lora_weights = LoraInit::kTrue;
  std::int64_t pissa_niter = 0;            // of pissa_niter_N; 0: the whole decomposition
  std::string adapter_name_or_path;        // continue this adapter; empty: a new one
  std::vector<std::string> base_adapters;  // folders of frozen ones below it, part of the base
  // lora_dropout, when set beside adapter_name_or_path; empty: the adapter's
  std::optional<double> continued_dropout;
  // base_model_name_or_path in adapter_config.json; empty: the model folder
  std::string base_model_name_for_adapter;

  bool operator==(const AdapterPlan&) const = default;
};

struct DataPlan {
  // the .jsonl file; a folder is resolved to its <split>.jsonl; empty only with policy.replay
  std::string dataset_name;
  std::string dataset_test;  // evaluation .jsonl; empty: none
  std::string dataset_text_field = "text";
  std::int64_t max_length = 1024;  // 0: off (YAML null)
  bool packing = false;
  PackingStrategy packing_strategy = PackingStrategy::kBfd;
  std::optional<bool> eval_packing;
  std::optional<bool> completion_only_loss;  // empty: true exactly for prompt-completion data
  bool assistant_only_loss = false;
  bool shuffle_dataset = false;
  std::string eos_token;           // override; empty: the tokenizer's
  std::string chat_template_path;  // override; empty: the tokenizer's

  bool operator==(const DataPlan&) const = default;
};

// How many rows at a time, in which order, how long.
struct BatchPlan {
  std::int64_t per_device_train_batch_size = 8;
  std::int64_t per_device_eval_batch_size = 8;
  std::int64_t gradient_accumulation_steps = 1;
  double num_train_epochs = 3.0;
  std::int64_t max_steps = -1;  // > 0 wins over num_train_epochs
  std::int64_t seed = 42;
  std::optional<std::int64_t> data_seed;
  bool shuffle_rows = true;  // train_sampling_strategy random (true) or sequential
  bool dataloader_drop_last = false;
  bool share_prompt = true;  // ours: the prompt of a pair or a group is computed once, in sampling too

  bool operator==(const BatchPlan&) const = default;
};

struct OptimizerPlan {
  double learning_rate = 2e-5;
  Scheduler lr_scheduler_type = Scheduler::kLinear;
  double lr_num_cycles = 0.5;  // lr_scheduler_kwargs.num_cycles
  double warmup_steps = 0;     // >= 1 steps; < 1 a share of all steps, rounded up
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;  // 0: no clipping

  bool operator==(const OptimizerPlan&) const = default;
};

struct LoggingPlan {
  IntervalStrategy logging_strategy = IntervalStrategy::kSteps;
  double logging_steps = 10;  // < 1: a share of all steps
  bool logging_first_step = false;
  bool tensorboard = false;  // report_to

  bool operator==(const LoggingPlan&) const = default;
};

struct EvaluationPlan {
  IntervalStrategy eval_strategy = IntervalStrategy::kNo;
  double eval_steps = 0;  // 0: as logging_steps
  bool eval_on_start = false;

  bool operator==(const EvaluationPlan&) const = default;
};

struct SavingPlan {
  std::string output_dir;
  IntervalStrategy save_strategy = IntervalStrategy::kSteps;
  double save_steps = 500;
  std::int64_t save_total_limit = 0;   // 0: keep all
  std::string resume_from_checkpoint;  // empty: no; "true": the newest in output_dir; or a folder

  bool operator==(const SavingPlan&) const = default;
};

struct MachinePlan {
  std::int64_t threads = 0;  // 0: as many as the processors this process may use
  RecomputeMode recompute =
      RecomputeMode::kAuto;  // kNone too when gradient_checkpointing is false and this is auto
  LayerForm layer_form = LayerForm::kAuto;
  std::int64_t memory_limit = 0;  // bytes; 0: what is free when the run begins
  // Of weights, adapter, optimizer and passes, as libtorch names it. No option sets it yet: the tests'
  // stand-in (tests/standin) is the only other one.
  std::string device = "cpu";

  bool operator==(const MachinePlan&) const = default;
};

// The doctor, before and while a run goes on.
struct WatchPlan {
  bool skip_doctor = false;            // no examination before step 1
  OnFault on_fault = OnFault::kPause;  // a failure while the run goes on; one before step 1 always stops it

  bool operator==(const WatchPlan&) const = default;
};

// The reference of DPO and KTO.
struct ReferencePlan {
  bool precompute_ref_log_probs = false;
  std::optional<std::int64_t> precompute_ref_batch_size;

  bool operator==(const ReferencePlan&) const = default;
};

// A run: one struct a concern. What takes a run's options takes the concern that it reads.
struct Plan : ModelPlan,
              AdapterPlan,
              DataPlan,
              BatchPlan,
              OptimizerPlan,
              LoggingPlan,
              EvaluationPlan,
              SavingPlan,
              MachinePlan,
              WatchPlan,
              ReferencePlan {
  Method method = Method::kSft;
  PolicyPlan policy;          // kGrpo, kRloo and kOnlineDpo
  PreferencePlan preference;  // kDpo
  OnlineDpoPlan online;       // kOnlineDpo
  RewardModelPlan reward;     // kReward
  KtoPlan kto;                // kKto

  // every option as resolved, in table order: what plan.yaml and `hone plan` show
  std::vector<std::pair<std::string, std::string>> resolved;
  // one line for each answered option the user set: "use_vllm: hone samples with its own weights"
  std::vector<std::string> notes;

  bool operator==(const Plan&) const = default;
};

}  // namespace hone::config
