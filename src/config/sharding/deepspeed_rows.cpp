// Rows: DeepSpeed's JSON.
#include "config/sharding/sharding_rows.h"

namespace hone::config {
namespace {

using enum KeyFate;

constexpr std::string_view kZero = "zero_optimization";
constexpr std::string_view kExchange =
    "ranks exchange gradients in fp32, after the backward, or layer by layer in it (zero_stage 2 and 3)";
constexpr std::string_view kScaling = "only read with fp16, which is refused when it is on";
constexpr std::string_view kOwnLogs =
    "logging_steps and report_to say what is logged; metrics.jsonl has times and memory";
constexpr std::string_view kRounds = "it rounds what is exchanged, and results would differ";
constexpr std::string_view kOtherUpdate = "it changes the updates, and hone does not read it here";
constexpr std::string_view kOtherModel = "it changes what the model computes, and hone does not have it";
constexpr std::string_view kOtherRows = "it changes which rows a step trains on, and hone does not have it";
constexpr std::string_view kHow = "it says how DeepSpeed works, and has no meaning here";

constexpr ShardingRow kRows[] = {
    {kTopKey, "train_batch_size", kRead,
     "has to be per_device_train_batch_size x gradient_accumulation_steps x ranks"},
    {kTopKey, "train_micro_batch_size_per_gpu", kOption, "per_device_train_batch_size"},
    {kTopKey, "gradient_accumulation_steps", kOption, "gradient_accumulation_steps"},
    {kTopKey, "gradient_clipping", kOption, "max_grad_norm"},
    {kTopKey, "dataloader_drop_last", kOption, "dataloader_drop_last"},
    {kTopKey,
     "prescale_gradients gradient_predivide_factor fp32_allreduce sparse_gradients disable_allgather", kNoted,
     kExchange},
    {kTopKey, "communication_data_type seq_parallel_communication_data_type data_types graph_harvesting",
     kNoted, kExchange},
    {kTopKey, "zero_allow_untested_optimizer zero_force_ds_cpu_optimizer compile", kNoted, kHow},
    {kTopKey, "steps_per_print wall_clock_breakdown dump_state memory_breakdown timers comms_logger", kNoted,
     kOwnLogs},
    {kTopKey, "flops_profiler tensorboard wandb comet csv_monitor monitor_config", kNoted, kOwnLogs},
    {kTopKey, "activation_checkpointing", kNoted, kRecomputeKeys},
    {kTopKey, "aio", kNoted, kInMemory},
    {kTopKey, "checkpoint nebula datastates_ckpt use_node_local_storage load_universal_checkpoint", kNoted,
     kWholeFiles},
    {kTopKey, "amp torch_autocast", kRefused, "dtype and bf16 set the precision"},
    {kTopKey, "pipeline tensor_parallel sequence_parallel_size expert_parallel_size moe domino", kRefused,
     kOtherSplit, "1"},
    {kTopKey, "sparse_attention compression_training quantize_training progressive_layer_drop eigenvalue",
     kRefused, kOtherModel},
    {kTopKey, "weight_quantization hybrid_engine", kRefused, kOtherModel},
    {kTopKey, "curriculum_learning data_efficiency elasticity", kRefused, kOtherRows},
    {kTopKey, "autotuning", kRefused, "it searches for sizes by training; memory is planned before step 1"},

    {kTopKey, "bf16 bfloat16", kSection},
    {"bf16 bfloat16", "enabled", kOption, "bf16"},
    {"bf16 bfloat16", "immediate_grad_update check_grad_overflow", kNoted, kHow},
    {"bf16 bfloat16", "bf16_master_weights_and_grads bf16_optimizer_states", kRefused,
     "weights, gradients and moments that are trained are fp32"},
    {kTopKey, "fp16", kSection},
    {"fp16", "enabled", kOption, "fp16"},
    {"fp16", "loss_scale loss_scale_window initial_scale_power hysteresis consecutive_hysteresis", kNoted,
     kScaling},
    {"fp16", "min_loss_scale auto_cast fp16_master_weights_and_grads", kNoted, kScaling},

    {kTopKey, "optimizer", kSection},
    {"optimizer", "type", kRead,
     "Adam and AdamW are adamw_torch, SGD sgd, Adagrad adagrad; optim has to say the same; others, such as "
     "OneBitAdam, are refused"},
    {"optimizer", "legacy_fusion", kNoted, kHow},
    {"optimizer", "params", kSection},
    {"optimizer.params", "lr", kOption, "learning_rate"},
    {"optimizer.params", "betas", kRead, "`adam_beta1` and `adam_beta2`"},
    {"optimizer.params", "eps", kOption, "adam_epsilon"},
    {"optimizer.params", "weight_decay", kOption, "weight_decay"},
    {"optimizer.params", "torch_adam fused foreach fp32_optimizer_states", kNoted, kHow},
    {"optimizer.params", "adam_w_mode bias_correction", kRefused, kOtherUpdate, "true"},
    {"optimizer.params", "amsgrad momentum nesterov dampening maximize lr_decay initial_accumulator_value",
     kRefused, kOtherUpdate},
    {"optimizer.params", "freeze_step cuda_aware comm_backend_name var_freeze_step", kRefused, kRounds},

    {kTopKey, "scheduler", kSection},
    {"scheduler", "type", kRead,
     "WarmupLR is constant_with_warmup, WarmupDecayLR linear; lr_scheduler_type has to say the same; others "
     "are refused"},
    {"scheduler", "params", kSection},
    {"scheduler.params", "warmup_max_lr", kOption, "learning_rate"},
    {"scheduler.params", "warmup_num_steps", kOption, "warmup_steps"},
    {"scheduler.params", "total_num_steps", kRead, "has to be `max_steps`"},
    {"scheduler.params", "warmup_type", kRefused, "the warmup is linear", "linear"},
    {"scheduler.params", "warmup_min_lr last_batch_iteration", kRefused, "the warmup begins at 0", "-1"},
    {"scheduler.params", "warmup_min_ratio cos_min_ratio", kRefused,
     "write lr_scheduler_type: cosine_with_min_lr with lr_scheduler_kwargs"},

    {kTopKey, "zero_optimization", kSection},
    {kZero, "stage", kRead, "see above"},
    {kZero, "allgather_partitions allgather_bucket_size overlap_comm reduce_scatter reduce_bucket_size",
     kNoted, kExchange},
    {kZero, "contiguous_gradients round_robin_gradients ignore_unused_parameters grad_hooks legacy_stage1",
     kNoted, kExchange},
    {kZero, "use_multi_rank_bucket_allreduce", kNoted, kExchange},
    {kZero, "sub_group_size fast_init memory_efficient_linear log_trace_cache_warnings", kNoted, kHow},
    {kZero, "override_module_apply enable_sanity_checks", kNoted, kHow},
    {kZero, "prefetch_bucket_size max_live_parameters max_reuse_distance param_persistence_threshold", kNoted,
     kWholeModel},
    {kZero, "model_persistence_threshold stage3_prefetch_bucket_size stage3_max_live_parameters", kNoted,
     kWholeModel},
    {kZero, "stage3_max_reuse_distance stage3_param_persistence_threshold leaf_module", kNoted, kWholeModel},
    {kZero, "stage3_model_persistence_threshold module_granularity_threshold", kNoted, kWholeModel},
    {kZero, "use_all_reduce_for_fetch_params stage3_use_all_reduce_for_fetch_params", kNoted, kWholeModel},
    {kZero, "zero_hpz_partition_size mics_shard_size mics_hierarchical_params_gather", kNoted, kWholeModel},
    {kZero, "stage3_gather_16bit_weights_on_model_save stage3_gather_fp16_weights_on_model_save", kNoted,
     kWholeFiles},
    {kZero, "gather_16bit_weights_on_model_save load_from_fp32_weights elastic_checkpoint", kNoted,
     kWholeFiles},
    {kZero, "offload_optimizer", kRead, kOffloaded},
    {kZero, "offload_param cpu_offload cpu_offload_params cpu_offload_use_pin_memory", kNoted, kInMemory},
    {kZero, "super_offload zenflow", kRefused, kOtherUpdate},
    {kZero, "zero_quantized_weights zero_quantized_nontrainable_weights zero_quantized_gradients", kRefused,
     kRounds},
    {kZero, "zeropp_loco_param", kRefused, kRounds},
};

}  // namespace

const ShardingTable& deepspeed_table() {
  static const ShardingTable table{.title = "DeepSpeed's JSON (`deepspeed`)", .rows = kRows};
  return table;
}

}  // namespace hone::config
