// The names of torchtune's recipes, whose development ended in 2025.
#include "config/others/other_names.h"

namespace hone::config::torchtune {
namespace {

constexpr std::string_view kHow = "how it is computed, not what",
                           kTold = "it changes nothing in what is learned";

// clang-format off
constexpr OtherName kNames[] = {
    part("teacher_checkpointer"), part("kd_loss"), part("kd_ratio"), part("model"), part("tokenizer"), part("checkpointer"), part("dataset"), part("dataset_val"), part("optimizer"), part("lr_scheduler"), part("loss"), part("dtype"), part("seed"), part("shuffle"),
    part("max_steps_per_epoch"), part("clip_grad_norm"), part("resume_from_checkpoint"), part("run_val_every_n_steps"), part("model_dir"), part("checkpoint_dir"), part("base_model"), part("profiler"),
    becomes("batch_size", "per_device_train_batch_size"), becomes("batch_size_val", "per_device_eval_batch_size"), becomes("epochs", "num_train_epochs"), becomes("gradient_accumulation_steps", "gradient_accumulation_steps", "1"), becomes("output_dir", "output_dir"), becomes("log_every_n_steps", "logging_steps", "1"),
    rejected("optimizer_in_bwd", "a step for each gradient as it comes, without accumulation or clipping", "write false"), rejected("quantizer", "training of quantized weights", "remove it"), rejected("teacher_model", "distillation from a teacher", "use the recipe without it"),
    rejected("policy_model", "PPO", "hone grpo or hone rloo"), rejected("reward_and_value_model", "PPO", "hone grpo or hone rloo"), rejected("fp8_training_enabled", "products of float8", "write false"),
    passed("compile", kHow), passed("device", kHow), passed("enable_activation_checkpointing", kHow), passed("enable_activation_offloading", kHow), passed("activation_offloading_use_streams", kHow), passed("ac_mode", kHow), passed("ac_option", kHow), passed("custom_sharded_layers", kHow), passed("fsdp_cpu_offload", kHow), passed("fsdp_reshard_after_forward", kHow), passed("memory_efficient_fsdp_wrap", kHow), passed("tensor_parallel_dim", kHow), passed("data_parallel_shard_dim", kHow), passed("data_parallel_replicate_dim", kHow), passed("context_parallel_dim", kHow), passed("tensor_parallel_plan", kHow),
    passed("metric_logger", kTold), passed("log_level", kTold), passed("log_peak_memory_stats", kTold), passed("save_adapter_weights_only", "hone writes the adapter alone"), passed("cudnn_deterministic_mode", kHow), passed("enable_async_checkpointing", kHow), passed("collate_fn", "hone never pads"), passed("name", kTold), passed("model_type", kTold), passed("timestamp", kTold),
};
// clang-format on

}  // namespace

std::span<const OtherName> names() {
  return kNames;
}

}  // namespace hone::config::torchtune
