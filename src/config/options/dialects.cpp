// The names of recipes that are not TRL's own: alignment-handbook, open-r1, SageMaker's recipes, philschmid's
// tutorials, Accelerate's launchers. Each row: the name, whose it is, and what it becomes.
#include "config/options/former_name_rows.h"

namespace hone::config {
namespace {

constexpr std::string_view kHandbook = "alignment-handbook", kOpenR1 = "open-r1", kSageMaker = "SageMaker",
                           kSchmid = "philschmid", kAccelerate = "Accelerate", kSimPo = "SimPO",
                           kForks = "a fork of open-r1", kAxolotl = "axolotl", kFactory = "LLaMA-Factory";
constexpr std::string_view kNoUpload = "after training, hone uploads and evaluates nothing";
constexpr std::string_view kNoTracker = "read only by parts of its own trackers";
constexpr std::string_view kServers = "read only by cf_code and ioi_code, whose servers hone does not call";
constexpr std::string_view kSandbox = "the programs of code and binary_code run on this machine, shut in";
constexpr std::string_view kOnlyText = "hone trains only on text";

// clang-format off
std::vector<FormerName> of_rewards() {
  return {
      // rewards of open-r1
      noted("code_eval_test_batch_size", kOpenR1, kServers),
      noted("code_eval_scoring_mode", kOpenR1, kServers),
      noted("code_provider", kOpenR1, kSandbox),
      noted("ioi_provider", kOpenR1, kServers),
      noted("e2b_router_url", kOpenR1, kSandbox),
      noted("morph_router_url", kOpenR1, kSandbox),
      noted("enforce_same_language", kOpenR1, "code runs Python only, and names rows of other languages"),
      // other losses
      noted("reward_batch_size", kForks, "hone scores the completions of a generation batch together", "grpo rloo online-dpo"),
      // values that say what hone does; others change the loss
      {.name = "advantage", .whose = kForks, .fate = Fate::kRefused, .why = "another advantage than TRL's", .fix = "write scale_rewards", .words = "studentization", .commands = kPolicies},
      {.name = "token_broadcast", .whose = kForks, .fate = Fate::kRefused, .why = "in TRL each token of a completion has its advantage", .fix = "remove it", .words = "uniform", .commands = kPolicies},
      {.name = "trainer_type", .whose = kForks, .fate = Fate::kRefused, .why = "a trainer of its own", .fix = "remove it: the command says the method", .words = "GRPOTrainer XGRPOTrainer SFTTrainer DPOTrainer", .commands = kTraining},
      {.name = "method", .whose = kForks, .fate = Fate::kRefused, .why = "the command says the method", .fix = "remove it, or choose that command", .words = "grpo", .commands = "grpo"},
      {.name = "method", .whose = kForks, .fate = Fate::kRefused, .why = "the command says the method", .fix = "remove it, or choose that command", .words = "rloo", .commands = "rloo"},
      refused_name("tag", kForks, "a trainer of its own reads it", "remove it", kPolicies),
      refused_name("part_of_gradient", kForks, "a trainer of its own reads it", "remove it", kPolicies),
      noted("quick_eval_dataset", kForks, kNoUpload),
      refused_name("gamma_beta_ratio", kSimPo, "SimPO's loss is not one of dpo's", "remove it, or train with another loss_type", "dpo"),
  };
}

std::vector<FormerName> of_trackers() {
  return {
      renamed("wandb_name", kOpenR1, "run_name"),
      renamed("wandb_run_name", kForks, "run_name"),
      renamed("project_name", kForks, "wandb_project"),
      noted("experiment_name", kForks, "a name in its own logs and folders"),
      noted("exp_name", kForks, "a name in its own logs and folders"),
      noted("wandb_watch", kForks, kNoTracker),
      noted("wandb_log_model", kForks, kNoTracker),
      noted("log_rewards", kForks, "rewards are always logged", "grpo rloo online-dpo"),
      noted("log_reward_breakdown", kForks, "each reward is always logged", "grpo rloo online-dpo"),
      noted("reward_logging_steps", kForks, "logging_steps is for rewards too", "grpo rloo online-dpo"),
      noted("log_completions", kForks, "sample_prompts shows completions while training", "sft dpo kto reward cpo orpo"),
      noted("num_completions_to_print", kForks, "sample_prompts shows completions while training", "sft dpo kto reward cpo orpo"),
      renamed("mlflow_run_name", kSageMaker, "run_name"),
      renamed("mlflow_uri", kSageMaker, "mlflow_tracking_uri"),
      noted("wandb_log_unique_prompts", kOpenR1, kNoTracker, "sft dpo kto reward cpo orpo"),
      noted("token_entropy", kSageMaker, kNoTracker),
  };
}

// Files of other programs: their names have other meanings together, so that each is refused with TRL's name.
std::vector<FormerName> of_other_programs() {
  constexpr std::string_view kWhy = "a file for another program: hone reads TRL's names";
  return {
      refused_name("base_model", kAxolotl, kWhy, "write model_name_or_path"),
      refused_name("adapter", kAxolotl, kWhy, "write use_peft: true, and load_in_4bit: true for qlora"),
      refused_name("micro_batch_size", kAxolotl, kWhy, "write per_device_train_batch_size"),
      refused_name("sequence_len", kAxolotl, kWhy, "write max_length"),
      refused_name("sample_packing", kAxolotl, kWhy, "write packing", "sft"),
      refused_name("val_set_size", kAxolotl, kWhy, "write test_split_size, or eval_dataset"),
      refused_name("lora_target_linear", kAxolotl, kWhy, "write lora_target_modules: all-linear"),
      refused_name("train_on_inputs", kAxolotl, kWhy, "write completion_only_loss: false", "sft"),
      refused_name("rl", kAxolotl, kWhy, "choose the command: hone dpo, hone kto, hone orpo or hone grpo"),
      refused_name("finetuning_type", kFactory, kWhy, "write use_peft: true for lora, use_peft: false for full"),
      refused_name("stage", kFactory, kWhy, "choose the command: hone sft, hone dpo, hone kto or hone reward"),
      refused_name("cutoff_len", kFactory, kWhy, "write max_length"),
      refused_name("lora_target", kFactory, kWhy, "write lora_target_modules"),
      refused_name("template", kFactory, kWhy, "remove it: the model's own template is used; chat_template names another"),
      refused_name("dataset_dir", kFactory, kWhy, "write the path of the file as dataset_name"),
      refused_name("val_size", kFactory, kWhy, "write test_split_size"),
      refused_name("quantization_bit", kFactory, kWhy, "write load_in_4bit: true"),
      refused_name("pref_beta", kFactory, kWhy, "write beta"),
      refused_name("pref_loss", kFactory, kWhy, "write loss_type"),
  };
}

}  // namespace

std::vector<FormerName> dialect_names() {
  std::vector<FormerName> all = {
      // the data
      renamed("dataset_id_or_path", kSchmid, "dataset_name"),
      renamed("dataset_id", kSchmid, "dataset_name"),
      renamed("train_dataset_path", kSchmid, "dataset_name"),
      renamed("test_dataset_path", kSchmid, "eval_dataset"),
      renamed("train_dataset_id_or_path", kSageMaker, "dataset_name"),
      renamed("val_dataset_id_or_path", kSageMaker, "eval_dataset"),
      renamed("eval_dataset_id_or_path", kSageMaker, "eval_dataset"),
      {.name = "dataset_mixer", .whose = kHandbook, .fate = Fate::kMixture, .commands = kTraining},
      {.name = "dataset_splits", .whose = kHandbook, .fate = Fate::kMixture, .commands = kTraining},
      {.name = "dataset_configs", .whose = kHandbook, .fate = Fate::kMixture, .commands = kTraining},
      {.name = "dataset_mixture", .whose = kOpenR1, .fate = Fate::kMixture, .commands = kTraining},
      noted("auto_insert_empty_system_msg", kHandbook, "system_prompt sets the system turn of prompts", "grpo rloo online-dpo"),
      renamed("dataset_split", kSchmid, "dataset_train_split"),
      renamed("eval_dataset_name", kOpenR1, "eval_dataset"),
      renamed("eval_dataset_split", kOpenR1, "dataset_test_split"),
      noted("dataset_prompt_column", kOpenR1, "only prompts to sample from are made of a column", "sft dpo kto reward cpo orpo"),
      renamed("text_column", kHandbook, "dataset_text_field", "sft"),
      renamed("truncation_side", kHandbook, "truncation_mode", "sft dpo", "left=keep_end right=keep_start"),
      noted("truncation_side", kHandbook, "a long sequence keeps its beginning, a long prompt its end", "grpo rloo online-dpo reward kto cpo orpo"),
      noted("system_prompt", kOpenR1, "read only by the evaluation after training, which hone does not do", "sft dpo kto reward cpo orpo"),
      {.name = "max_train_samples", .whose = kForks, .fate = Fate::kMixture, .commands = kTraining},
      {.name = "max_test_samples", .whose = kForks, .fate = Fate::kMixture, .commands = kTraining},
      {.name = "max_eval_samples", .whose = kForks, .fate = Fate::kMixture, .commands = kTraining},
      {.name = "dataset_eval_splits", .whose = kForks, .fate = Fate::kMixture, .commands = kTraining},
      {.name = "eval_dataset_config", .whose = kForks, .fate = Fate::kMixture, .commands = kTraining},
      // the model
      renamed("model_id", kSchmid, "model_name_or_path"),
      noted("processor_name_or_path", kSageMaker, kOnlyText),
      noted("tokenizer_revision", kHandbook, "the tokenizer is read from a folder, or is the model's"),
      noted("weights_only", kOpenR1, "hone reads safetensors only"),
      noted("modality_type", kSageMaker, kOnlyText),
      noted("use_snapshot_download", kSageMaker, "hone reads a model's folder"),
      noted("merge_adapters", kSchmid, "hone merge writes the merged model"),
      noted("merge_weights", kSageMaker, "hone merge writes the merged model"),
      noted("mxfp4", kSageMaker, "it says how gpt-oss is stored, which hone reads from the model's own files"),
      noted("model_cache_dir", kForks, "hone reads model_name_or_path"),
      noted("padding_side", kHandbook, "hone never pads"),
      noted("device_map", kHandbook, "a run has one place for its weights"),
      noted("low_cpu_mem_usage", kHandbook, "weights are read once, as they are"),
      noted("vllm_engine_args", kForks, "hone samples with the trainer's own weights", "grpo rloo online-dpo"),
      noted("model_download_location", kSageMaker, "hone reads model_name_or_path"),
      noted("dataset_local_location", kSageMaker, "hone reads dataset_name"),
      // after training
      noted("callbacks", kOpenR1, kNoUpload),
      noted("benchmarks", kOpenR1, kNoUpload),
      noted("hub_model_revision", kOpenR1, kNoUpload),
      noted("overwrite_hub_revision", kOpenR1, kNoUpload),
      noted("push_to_hub_revision", kOpenR1, kNoUpload),
      noted("eval_max_samples", kSageMaker, kNoUpload),
      noted("eval_max_new_tokens", kSageMaker, kNoUpload),
      noted("eval_metrics", kSageMaker, kNoUpload),
      noted("tags", kHandbook, kNoUpload),
  };
  for (const auto& more : {of_rewards(), of_trackers(), of_other_programs()}) all.insert(all.end(), more.begin(), more.end());
  // accelerate launch takes these beside its file, and recipes hold both
  for (const std::string_view name :
       {"num_processes", "num_machines", "machine_rank", "main_process_ip", "main_process_port", "main_training_function",
        "distributed_type", "compute_environment", "rdzv_backend", "same_network", "downcast_bf16", "deepspeed_config",
        "gpu_ids", "mixed_precision", "enable_cpu_affinity"}) {
    all.push_back({.name = name, .whose = kAccelerate, .fate = Fate::kKey, .option = "accelerate_config", .commands = kTraining});
  }
  return all;
}
// clang-format on

}  // namespace hone::config
