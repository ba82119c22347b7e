// Rows: accelerate's YAML with its deepspeed_config, and FSDP's settings.
#include "config/sharding/sharding_rows.h"

namespace hone::config {
namespace {

using enum KeyFate;

constexpr std::string_view kOfDeepSpeed = "deepspeed_config";
constexpr std::string_view kLauncher =
    "processes are started by hone launch, torchrun, mpirun or srun, and find each other by their variables";
constexpr std::string_view kOnCpu = "hone trains on the CPU, or where the option `device` says";
constexpr std::string_view kNoSageMaker = "hone does not start machines of SageMaker";

constexpr ShardingRow kAccelerateRows[] = {
    {kTopKey, "distributed_type", kRead,
     "NO, MULTI_CPU, MULTI_GPU and the like: ranks, as their launcher starts them; DEEPSPEED and FSDP: by "
     "their settings; MEGATRON_LM is refused"},
    {kTopKey, "num_processes", kRead, "the launcher says how many ranks there are; a note where it differs"},
    {kTopKey, "mixed_precision", kRead,
     "as in TRL, `bf16` counts, which is true by default; with bf16: false anything but no is refused"},
    {kTopKey, "gradient_accumulation_steps", kOption, "gradient_accumulation_steps"},
    {kTopKey,
     "num_machines machine_rank main_process_ip main_process_port rdzv_backend rdzv_conf same_network",
     kNoted, kLauncher},
    {kTopKey, "main_training_function compute_environment mpirun_config debug gpu_ids max_restarts module",
     kNoted, kLauncher},
    {kTopKey, "enable_cpu_affinity", kNoted, "hone launch gives each rank its share of the processors"},
    {kTopKey, "use_cpu downcast_bf16 tpu_env tpu_name tpu_zone tpu_vm tpu_use_cluster tpu_use_sudo", kNoted,
     kOnCpu},
    {kTopKey, "command_file commands ipex_config", kNoted, kOnCpu},
    {kTopKey, "dynamo_config dynamo_backend", kNoted, "hone runs compiled C++"},
    {kTopKey, "ec2_instance_type iam_role_name image_uri profile region base_job_name pytorch_version",
     kNoted, kNoSageMaker},
    {kTopKey, "transformers_version py_version sagemaker_inputs_file sagemaker_metrics_file additional_args",
     kNoted, kNoSageMaker},
    {kTopKey, "fp8_config", kNoted, "only read with fp8, which hone does not have"},
    {kTopKey, "megatron_lm_config", kRefused, kOtherSplit},
    {kTopKey, "fsdp_config", kRead, "with distributed_type: FSDP, read as the option `fsdp_config`"},
    {kTopKey, "parallelism_config", kRead,
     "sizes of data parallelism (dp_replicate_size, dp_shard_size) are noted; others have to be 1"},

    {kTopKey, "deepspeed_config", kSection},
    {kOfDeepSpeed, "deepspeed_config_file", kRead, "a file, read as `deepspeed`"},
    {kOfDeepSpeed, "zero_stage", kRead, "see above"},
    {kOfDeepSpeed, "gradient_accumulation_steps", kOption, "gradient_accumulation_steps"},
    {kOfDeepSpeed, "gradient_clipping", kOption, "max_grad_norm"},
    {kOfDeepSpeed, "offload_optimizer_device offload_optimizer_nvme_path", kRead, kOffloaded},
    {kOfDeepSpeed, "offload_param_device offload_param_nvme_path", kNoted, kInMemory},
    {kOfDeepSpeed, "zero3_init_flag", kNoted, kWholeModel},
    {kOfDeepSpeed, "zero3_save_16bit_model", kNoted, kWholeFiles},
    {kOfDeepSpeed, "deepspeed_multinode_launcher deepspeed_hostfile deepspeed_inclusion_filter", kNoted,
     kLauncher},
    {kOfDeepSpeed, "deepspeed_exclusion_filter", kNoted, kLauncher},
    {kOfDeepSpeed, "seq_parallel_communication_data_type", kNoted, "only read with sequence parallelism"},
    {kOfDeepSpeed, "deepspeed_moe_layer_cls_names", kRefused, kOtherSplit},
};

constexpr ShardingRow kFsdpRows[] = {
    {kTopKey, "sharding_strategy reshard_after_forward", kRead,
     "FULL_SHARD is stage 3, SHARD_GRAD_OP stage 2, NO_SHARD stage 0, HYBRID_SHARD stage 3 in each host; true "
     "and false are stages 3 and 2"},
    {kTopKey, "version auto_wrap_policy transformer_layer_cls_to_wrap min_num_params ignored_modules", kNoted,
     kWholeModel},
    {kTopKey, "backward_prefetch backward_prefetch_policy forward_prefetch limit_all_gathers use_orig_params",
     kNoted, kWholeModel},
    {kTopKey, "sync_module_states cpu_ram_efficient_loading", kNoted, "each rank reads the model's files"},
    {kTopKey, "offload_params cpu_offload", kNoted, kInMemory},
    {kTopKey, "state_dict_type", kNoted, kWholeFiles},
    {kTopKey, "activation_checkpointing activation_cpu_offload activation_checkpointing_offload", kNoted,
     kRecomputeKeys},
    {kTopKey, "mixed_precision_policy", kNoted, "dtype and bf16 set the precision"},
    {kTopKey, "xla xla_fsdp_v2 xla_fsdp_settings xla_fsdp_grad_ckpt", kNoted, kOnCpu},
};

}  // namespace

const ShardingTable& accelerate_table() {
  static const ShardingTable table{.title = "accelerate's YAML (`accelerate_config`)",
                                   .rows = kAccelerateRows};
  return table;
}

const ShardingTable& fsdp_table() {
  static const ShardingTable table{.title = "FSDP (`fsdp_config`, and fsdp_config of accelerate's YAML)",
                                   .rows = kFsdpRows};
  return table;
}

}  // namespace hone::config
