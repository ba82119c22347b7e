// Plan: one run, described and resolved. Field names are TRL's option names; the table in option_table.h
// gives each its type, default and meaning. A plan is data: copied freely, compared in tests, written as
// plan.yaml.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/lora_init.h"
#include "base/gpu_reports.h"
#include "base/row_files.h"
#include "config/hub_names.h"
#include "config/recipe_plan.h"
#include "config/report_plan.h"
#include "config/samples_plan.h"
#include "learn/loss_parameters.h"
#include "learn/optimizer_options.h"
#include "learn/schedule.h"

namespace hone::config {

enum class Method { kSft, kGrpo, kRloo, kDpo, kOnlineDpo, kReward, kKto, kCpo, kOrpo, kDistill };

// Methods that sample completions themselves: they have a PolicyPlan.
constexpr bool samples(Method method) {
  return method == Method::kGrpo || method == Method::kRloo || method == Method::kOnlineDpo ||
         method == Method::kDistill;
}

// The dtypes of weights and products (docs/options.md, Precision); resolved from `dtype` and `bf16`.
enum class Precision {
  kFloat32,   // dtype float32, bf16 false: everything fp32, the parity mode
  kAutocast,  // dtype float32, bf16 true (TRL's default): frozen linears and GEMMs bf16, the rest fp32
  kBFloat16,  // dtype bfloat16 or auto: bf16 weights; norms, softmax and loss in fp32
};

enum class IntervalStrategy { kNo, kSteps, kEpoch, kBest };  // *_strategy options; kBest: save_strategy only
using adapters::LoraInit;
using adapters::TrainedBias;
// Says what the backward recomputes (model/layers/fused_layer.h); results are bit-equal. kAuto: the first
// level in this order whose planned peak fits memory_limit (train/facts/memory_plan.h).
enum class RecomputeMode { kAuto, kNone, kCheap, kLayer };
// load_in_4bit with bnb_4bit_quant_type, or load_in_8bit.
enum class QuantizedBase { kNone, kNf4, kFp4, kInt8 };
enum class LayerForm { kAuto, kFused, kAutograd };  // kAuto: fused where supported
// what the run does when the doctor's watch finds a failure
enum class OnFault { kWarn, kPause, kStop };
enum class RowOrder { kRandom, kSequential, kByLength };   // data/records/order.h
enum class PackingStrategy { kBfd, kBfdSplit, kWrapped };  // data/records/packing.h
using learn::Scheduler;

// The options that GRPO and RLOO add to SFT, with the field names of TRL's GRPOConfig, RLOOConfig and
// GRPOScriptArguments and GRPOConfig's defaults (the option table has each method's own). For RLOO, fields
// that its config does not have describe what it does: loss_type "rloo", importance_sampling_level
// "sequence", scale_rewards "none".
// Tools that the model may call while it samples, and the environments that give them (tools/tool_pool.h). hone's own but for
// max_tool_calling_iterations: TRL's are arguments of its trainer.
struct ToolsPlan {
  std::vector<std::string> tools;  // "tools.py:search,calc", "package.module:search", "hone.tools.calculator"
  // One factory, "env.py:Factory"; a server of OpenEnv, "ws://host:port"; or several, "name=env.py:Factory".
  std::vector<std::string> environment;
  std::string rollout;  // TRL's rollout_func, which makes the completions: "rollout.py:function"; empty: none
  std::int64_t max_tool_calling_iterations = -1;  // rounds of calls in a completion; -1: no bound
  std::int64_t tool_workers = 4;
  double tool_timeout = 30;                 // seconds of a call
  std::int64_t max_tool_result_tokens = 0;  // a longer result is cut in the middle; 0: none is
  std::int64_t tool_failures_to_stop =
      0;  // calls that fail in a row, after which a completion ends; 0: it goes on
  std::string tool_text_control_tokens = "plain";  // or as_is

  bool acts() const { return !tools.empty() || !environment.empty(); }
  bool operator==(const ToolsPlan&) const = default;
};

struct PolicyPlan : learn::PolicyLossParameters {
  // batches, in sequences (completions); resolved, so that generation_batch_size =
  // per_device_train_batch_size * steps_per_generation and num_generations divides it
  std::int64_t num_generations = 8;
  std::int64_t num_generations_eval = 8;
  std::int64_t generation_batch_size = 8;
  std::int64_t steps_per_generation = 1;
  std::int64_t num_iterations = 1;

  // sampling; generation_kwargs may also set min_new_tokens, stop_strings and stop_token_ids
  std::int64_t max_completion_length = 512;
  double temperature = 1.0;
  double top_p = 1.0;
  std::int64_t top_k = 0;
  double min_p = 0;
  double repetition_penalty = 1.0;
  std::int64_t min_new_tokens = 0;
  std::vector<std::string> stop_strings;
  std::vector<std::int64_t> stop_token_ids;   // in addition to the model's own
  std::string vllm_structured_outputs_regex;  // what a whole completion matches; empty: anything
  std::string chat_template_kwargs;           // JSON object; empty: none
  std::int64_t kv_memory = 0;  // bytes for keys and values while sampling; 0: what the memory plan leaves
  std::string drafts = "off";  // or auto
  // Groups whose rewards are all equal are replaced by those of further prompts (train/steps/group_filter.h).
  bool filter_groups = false;
  std::int64_t max_num_gen_batches = 10;

  // loss
  std::string loss_type = "dapo";                   // a word of the option's row; rloo's: "rloo"
  std::string importance_sampling_level = "token";  // or sequence
  std::string scale_rewards = "group";              // group batch none
  std::string multi_objective_aggregation = "sum_then_normalize";  // or normalize_then_sum
  bool use_adaptive_entropy = false;
  double entropy_coef_min = 0, entropy_coef_max = 1, entropy_coef_delta = 0.005, entropy_target = 0.2;
  // TRL's vllm_importance_sampling_*. TRL applies the correction only with vLLM. Here the trainer itself
  // samples, so the correction is off by default.
  bool importance_sampling_correction = false;
  std::string importance_sampling_mode = "sequence_mask";      // token|sequence _ mask|truncate
  bool normalize_advantages = false;                           // RLOO
  std::optional<std::pair<double, double>> reward_clip_range;  // RLOO

  // rewards (rewards/open_reward.h)
  std::vector<std::string> reward_funcs;  // reward_model_name_or_path first; empty only with replay
  std::vector<double> reward_weights;     // empty: all 1
  std::string python;                     // empty: base/process/active_python.h
  // hone's own ##2: a call of a function has one prompt's completions, and begins while others are sampled; false: the
  // whole generation batch, as in TRL
  bool reward_by_group = false;
  std::int64_t reward_workers = 1;
  double reward_timeout = 60;  // seconds per call

  // hone's own ##2
  std::string replay;  // a file of rollouts (train/batches/rollout_batch.h) instead of sampling and rewards
  bool dump_rollouts = false;  // write output_dir/rollouts.jsonl in that form

  // logging
  bool log_completions = false;
  std::int64_t num_completions_to_print = 0;  // 0: all
  bool log_unique_prompts = false;

  bool operator==(const PolicyPlan&) const = default;
};

// The options that DPO adds to SFT, with the field names and defaults of TRL's DPOConfig.
struct PreferencePlan : learn::PreferenceLossParameters {
  // sigmoid hinge ipo exo_pair nca_pair robust bco_pair sppo_hard aot aot_unpaired apo_zero apo_down discopop
  // sft sigmoid_norm
  std::vector<std::string> loss_type = {"sigmoid"};
  std::vector<double> loss_weights;              // empty: all 1
  std::string f_divergence_type = "reverse_kl";  // forward_kl js_divergence alpha_divergence

  bool operator==(const PreferencePlan&) const = default;
};

// The options that distillation adds to those of PolicyPlan, with the field names and defaults of TRL's DistillationConfig and,
// for lmbda and seq_kd, the field names of its GKDConfig. The teacher is ReferencePlan::ref_model.
struct DistillPlan {
  std::string loss_type = "divergence";  // or sampled, top_k
  double beta = 1;                       // learn/divergence/divergence.h
  // The share of micro-batches whose completions the model samples. Those of the others are in the data, or with seq_kd the
  // teacher's.
  double lmbda = 1;
  bool seq_kd = false;
  std::optional<double> loss_temperature;              // of both models in the loss; empty: that of sampling
  double kl_penalty_coef = 1, kl_discount_factor = 0;  // learn/divergence/sampled_divergence.h
  std::string teacher_model_server_url;                // empty: the teacher is in this process
  std::int64_t loss_top_k = 8;                         // learn/divergence/top_k_divergence.h

  bool operator==(const DistillPlan&) const = default;
};

// The options that only SFT has, with the field names and defaults of TRL's SFTConfig.
struct SftPlan : learn::SftLossParameters {
  std::string loss_type = "nll";   // or dft
  double neftune_noise_alpha = 0;  // model/layers/embedding_noise.h; 0: no noise

  bool operator==(const SftPlan&) const = default;
};

// The options that Online DPO adds to a PolicyPlan (two generations, one generation batch per step; its loss
// fields are not used), with the field names and defaults of TRL's OnlineDPOConfig. max_length is Plan's.
struct OnlineDpoPlan {
  std::string loss_type = "sigmoid";  // or ipo
  std::vector<double> beta = {0.1};   // one per epoch; the last one for later epochs
  std::optional<double> missing_eos_penalty;

  // hone's own ##2
  // do not train on pairs of equal scores; false: their first completion counts as the better one
  bool skip_ties = false;
  std::string judge;         // rewards/http/judge.h, instead of rewards; empty: none
  std::string judge_model;   // the model that the endpoint is asked for
  std::string judge_prompt;  // the prompt; empty: judge.h's

  bool operator==(const OnlineDpoPlan&) const = default;
};

// The options that reward models add to SFT, with the field names and defaults of TRL's RewardConfig.
struct RewardModelPlan {
  std::optional<double> center_rewards_coefficient;
  std::string pad_token;  // the score is that of the last token that is not this one; empty: the tokenizer's

  bool operator==(const RewardModelPlan&) const = default;
};

// The options that KTO adds to SFT, with the field names and defaults of TRL's KTOConfig.
struct KtoPlan : learn::KtoLossParameters {
  std::string loss_type = "kto";  // or apo_zero_unpaired

  bool operator==(const KtoPlan&) const = default;
};

// The options that CPO adds to SFT, with the field names and defaults of TRL's CPOConfig.
struct CpoPlan : learn::CpoLossParameters {
  std::string loss_type = "sigmoid";  // hinge ipo simpo; TRL's alphapo is simpo with cpo_alpha 0

  bool operator==(const CpoPlan&) const = default;
};

// The options that ORPO adds to SFT, with the field names and defaults of TRL's ORPOConfig.
struct OrpoPlan : learn::OrpoLossParameters {
  bool operator==(const OrpoPlan&) const = default;
};

struct ModelPlan {
  std::string model_name_or_path;       // folder in Hugging Face format, or a .gguf file
  std::string model_revision = "main";  // of a name of the hub
  Precision precision = Precision::kAutocast;
  QuantizedBase quantized_base = QuantizedBase::kNone;
  bool use_bnb_nested_quant = false;           // 4-bit only: the scales are quantized too
  bool quantize_moe_experts = false;           // experts are quantized too, not the linears alone
  bool cast_lm_head_to_fp32 = false;           // grpo: the head's matrix and its products in float32
  std::optional<double> router_aux_loss_coef;  // of mixtures of experts; empty: the model's

  bool operator==(const ModelPlan&) const = default;
};

struct AdapterPlan {
  bool use_peft = false;
  std::int64_t lora_r = 16;
  double lora_alpha = 32;
  double lora_dropout = 0.05;
  bool disable_dropout = false;  // every method but sft: sets lora_dropout to 0, also for a continued adapter
  // one element: a regex or "all-linear", as PEFT treats a string
  std::vector<std::string> lora_target_modules;
  std::vector<std::string> lora_exclude_modules;
  std::vector<std::string> lora_target_parameters;
  std::vector<std::int64_t> trainable_token_indices;
  std::string trainable_token_module;  // key of the mapping form, "embed_tokens"; empty: the list form
  // patterns of modules' names to their rank and alpha, in the order in which they are tried
  std::vector<std::pair<std::string, std::int64_t>> rank_pattern;
  std::vector<std::pair<std::string, double>> alpha_pattern;
  std::vector<std::int64_t> layers_to_transform;  // empty: all
  std::vector<std::string> layers_pattern;
  std::vector<std::string> lora_modules_to_save;
  TrainedBias bias = TrainedBias::kNone;
  bool use_rslora = false;
  bool use_dora = false;
  LoraInit init_lora_weights = LoraInit::kTrue;
  std::int64_t pissa_niter = 0;            // N of pissa_niter_N; 0: the full decomposition
  std::string adapter_name_or_path;        // continue this adapter; empty: a new one
  std::vector<std::string> base_adapters;  // folders of frozen adapters below it, part of the base
  // lora_dropout, when set together with adapter_name_or_path; empty: the adapter's
  std::optional<double> continued_dropout;
  // base_model_name_or_path in adapter_config.json; empty: the model folder
  std::string base_model_name_for_adapter;

  bool operator==(const AdapterPlan&) const = default;
};

// Full fine-tuning: what use_peft false trains, and how the model is written.
struct FullPlan {
  // Regular expressions that match the beginning of a tensor's name (Spectrum's); empty: every tensor is trained.
  std::vector<std::string> unfrozen_parameters;
  bool freeze_embeddings = false;   // embeddings stay as they are, and a head that is tied to one
  std::int64_t max_shard_size = 0;  // bytes of a file of weights; 0: 5 GB

  bool operator==(const FullPlan&) const = default;
};

// One of several data sets to evaluate: the metrics are eval_NAME_loss, ...
struct EvalSet {
  std::string name;
  base::RowFiles rows;

  bool operator==(const EvalSet&) const = default;
};

// An option that was set, and the forms of rows that it is for (option_table.h, for_rows).
struct RowOption {
  std::string name, forms;
  bool operator==(const RowOption&) const = default;
};

struct DataPlan {
  // Messages call the rows by this name: the file, where there is one. Empty only with policy.replay.
  std::string dataset_name;
  std::string dataset_test;   // of the rows to evaluate; empty: none
  base::RowFiles train_rows;  // their files
  base::RowFiles eval_rows;
  std::vector<EvalSet> eval_sets;  // several, which eval_rows has together; empty: one, or none
  std::string dataset_text_field = "text";
  std::int64_t max_length = 1024;              // 0: off (YAML null)
  std::string truncation_mode = "keep_start";  // keep_end or drop; sft and dpo
  bool packing = false;
  PackingStrategy packing_strategy = PackingStrategy::kBfd;
  std::optional<bool> eval_packing;
  std::optional<bool> completion_only_loss;  // empty: true exactly for prompt-completion data
  bool assistant_only_loss = false;
  bool shuffle_dataset = false;
  bool dataset_streaming = false;  // or streaming, of a mixture: rows in their order, read as they are needed
  bool ignore_data_skip = false;   // with dataset_streaming: a resumed run begins at the first row again
  std::string eos_token;           // override; empty: the tokenizer's
  std::string chat_template_path;  // override; empty: the tokenizer's
  // hone's own: the tokens of rows are kept for the next run, in the folder that the command names (data/forms/token_cache.h)
  bool cache_tokens = true;
  std::string token_cache;            // empty: none
  bool skip_prepare_dataset = false;  // of dataset_kwargs: tokenized rows that are neither cut nor dropped
  std::vector<RowOption> row_options;

  bool operator==(const DataPlan&) const = default;
};

// Batch size, order of rows, number of steps.
struct BatchPlan {
  std::int64_t per_device_train_batch_size = 8;
  std::int64_t per_device_eval_batch_size = 8;
  std::int64_t gradient_accumulation_steps = 1;  // of each rank
  // Processes of the run, of which each computes a part of every step, and which one this is; rank 0 writes. No options: the
  // environment says them (parallel/place.h).
  std::int64_t ranks = 1, rank = 0;
  double num_train_epochs = 3.0;
  std::int64_t max_steps = -1;  // > 0 wins over num_train_epochs
  std::int64_t seed = 42;
  std::optional<std::int64_t> data_seed;
  RowOrder train_sampling_strategy = RowOrder::kRandom;
  bool dataloader_drop_last = false;
  // hone's own ##2: the prompt of a pair or a group is computed once, in sampling too
  bool share_prompt = true;

  // Micro-batches of an optimizer step, of all ranks together.
  std::int64_t accumulation() const { return gradient_accumulation_steps * ranks; }
  bool leads() const { return rank == 0; }

  bool operator==(const BatchPlan&) const = default;
};

struct OptimizerPlan {
  double learning_rate = 2e-5;
  Scheduler lr_scheduler_type = Scheduler::kLinear;
  learn::ScheduleKwargs lr_scheduler_kwargs;
  double warmup_steps = 0;  // >= 1: steps; < 1: a fraction of all steps, rounded up
  learn::OptimizerKind optim = learn::OptimizerKind::kAdamW;
  learn::OptimizerArguments optim_args;
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;  // 0: no clipping

  bool operator==(const OptimizerPlan&) const = default;
};

struct LoggingPlan {
  IntervalStrategy logging_strategy = IntervalStrategy::kSteps;
  double logging_steps = 10;  // < 1: a fraction of all steps
  bool logging_first_step = false;
  bool tensorboard = false;  // report_to
  bool report_page = true;   // output_dir/report.html

  bool operator==(const LoggingPlan&) const = default;
};

struct EvaluationPlan {
  IntervalStrategy eval_strategy = IntervalStrategy::kNo;
  double eval_steps = 0;  // 0: as logging_steps
  double eval_delay = 0;  // steps; with eval_strategy kEpoch: epochs
  bool eval_on_start = false;

  bool operator==(const EvaluationPlan&) const = default;
};

struct SavingPlan {
  std::string output_dir;
  IntervalStrategy save_strategy = IntervalStrategy::kSteps;
  double save_steps = 500;
  std::int64_t save_total_limit = 0;  // 0: keep all
  double stop_grace = 20;             // seconds that a step may go on after a signal to stop
  bool load_best_model_at_end = false;
  // The metric of an evaluation that ranks checkpoints, with its prefix: eval_loss; empty: none are ranked.
  std::string metric_for_best_model;
  bool greater_is_better = false;
  std::string resume_from_checkpoint;  // empty: no; "true": the newest in output_dir; or a folder

  bool operator==(const SavingPlan&) const = default;
};

// The file in memory in which the ranks of a host share the frozen base (model/layers/shared_base.h).
struct SharedBasePlan {
  int descriptor = -1;     // -1: there is none
  bool leads = false;      // this rank fills it
  std::int64_t ranks = 1;  // that share it

  bool operator==(const SharedBasePlan&) const = default;
};

struct MachinePlan {
  std::int64_t threads = 0;      // 0: the number of processors that this process may use
  std::int64_t local_ranks = 1;  // ranks of this machine, which share its processors and its memory
  SharedBasePlan shared_base;
  std::int64_t ddp_timeout = 1800;  // seconds that a rank waits for the others in a collective
  // also kNone when gradient_checkpointing is false and this is auto
  RecomputeMode recompute = RecomputeMode::kAuto;
  LayerForm layer_form = LayerForm::kAuto;
  std::int64_t memory_limit = 0;  // bytes; 0: what is free at the start of the run
  // Full fine-tuning reads both: DeepSpeed's stage says of which parts each of several ranks keeps its share
  // (train/loop/shards.h); the folder is that of a file which holds the optimizer's state instead of memory,
  // empty: none.
  std::int64_t zero_stage = 0;
  std::string offload_folder;
  // Device of weights, adapter, optimizer and passes: cpu, cuda, cuda:N or auto, which a command makes one of the others
  // (commands/ranks/placement.h). The tests have one more, their stand-in (tests/standin).
  std::string device = base::kDefaultDevice;

  bool operator==(const MachinePlan&) const = default;
};

// The doctor, before and during a run.
struct WatchPlan {
  bool skip_doctor = false;            // no checks before step 1
  bool probe_rewards = true;           // before step 1, rewards are called (right answers, junk) and tools
  OnFault on_fault = OnFault::kPause;  // for a failure during the run; one before step 1 always stops it

  bool operator==(const WatchPlan&) const = default;
};

// The reference model of the methods that have one (train/passes/reference.h).
struct ReferencePlan {
  // hone's own ##2: TRL's trainers take a model as the argument ref_model. Empty: the model as the run begins.
  std::string ref_model;                       // as model_name_or_path
  std::optional<Precision> ref_precision;      // of ref_model, by ref_model_dtype; empty: the model's
  std::optional<QuantizedBase> ref_quantized;  // of ref_model, by teacher_quantization; empty: the model's
  bool precompute_ref_log_probs = false;
  std::optional<std::int64_t> precompute_ref_batch_size;
  // After each step whose number ref_model_sync_steps divides, with alpha the mixup:
  // reference = alpha * policy + (1 - alpha) * reference.
  bool sync_ref_model = false;
  double ref_model_mixup_alpha = 0.6;
  std::int64_t ref_model_sync_steps = 512;

  bool operator==(const ReferencePlan&) const = default;
};

// A run: one struct per concern. A function takes only the structs that it reads.
struct Plan : ModelPlan,
              AdapterPlan,
              FullPlan,
              DataPlan,
              BatchPlan,
              OptimizerPlan,
              LoggingPlan,
              EvaluationPlan,
              SamplesPlan,
              SavingPlan,
              MachinePlan,
              WatchPlan,
              ReferencePlan,
              RecipePlan,
              LoggerPlan,
              HubPlan {
  Method method = Method::kSft;
  PolicyPlan policy;          // kGrpo, kRloo, kOnlineDpo and kDistill
  ToolsPlan acting;           // kGrpo, kRloo and kDistill
  SftPlan sft;                // kSft
  PreferencePlan preference;  // kDpo
  OnlineDpoPlan online;       // kOnlineDpo
  RewardModelPlan reward;     // kReward
  KtoPlan kto;                // kKto
  CpoPlan cpo;                // kCpo
  OrpoPlan orpo;              // kOrpo
  DistillPlan distill;        // kDistill

  // every option as resolved, in table order: what plan.yaml and `hone plan` show
  std::vector<std::pair<std::string, std::string>> resolved;
  // one line for each ignored option that the user set: "use_vllm: hone samples with its own weights"
  std::vector<std::string> notes;
  std::vector<HubRequest> downloads;  // what the run names by the hub's names and this machine does not have

  bool operator==(const Plan&) const = default;
};

}  // namespace hone::config
