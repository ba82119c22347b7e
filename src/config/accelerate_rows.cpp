// Rows: accelerate's YAML with its deepspeed_config, and FSDP's settings.
#include "config/sharding_rows.h"

namespace hone::config {
namespace {

using enum KeyFate;

constexpr std::string_view kTop, kDeepSpeed = "deepspeed_config";
constexpr std::string_view kLauncher =
    "processes are started by hone launch, torchrun, mpirun or srun, and find each other by their variables";
constexpr std::string_view kOnCpu = "this build trains on the CPU";
constexpr std::string_view kInMemory =
    "everything is in the machine's memory already; nothing is moved to a disk";
constexpr std::string_view kWholeModel = "each rank has the whole model; no parameters are gathered";
constexpr std::string_view kWholeFiles = "checkpoints are whole, and rank 0 writes them";
constexpr std::string_view kRecompute = "recompute and gradient_checkpointing say what is recomputed";
constexpr std::string_view kOtherSplit = "hone divides batches among ranks, not the model";
constexpr std::string_view kSageMaker = "hone does not start machines of SageMaker";

constexpr ShardingRow kAccelerateRows[] = {
    {kTop, "distributed_type", kRead,
     "NO, MULTI_CPU, MULTI_GPU and the like: ranks, as their launcher starts them; DEEPSPEED and FSDP: by "
     "their settings; MEGATRON_LM is refused"},
    {kTop, "num_processes", kRead, "the launcher says how many ranks there are; a note where it differs"},
    {kTop, "mixed_precision", kRead,
     "as in TRL, `bf16` counts, which is true by default; with bf16: false anything but no is refused"},
    {kTop, "gradient_accumulation_steps", kOption, "gradient_accumulation_steps"},
    {kTop, "num_machines machine_rank main_process_ip main_process_port rdzv_backend rdzv_conf same_network",
     kNoted, kLauncher},
    {kTop, "main_training_function compute_environment mpirun_config debug gpu_ids max_restarts module",
     kNoted, kLauncher},
    {kTop, "enable_cpu_affinity", kNoted, "hone launch gives each rank its share of the processors"},
    {kTop, "use_cpu downcast_bf16 tpu_env tpu_name tpu_zone tpu_vm tpu_use_cluster tpu_use_sudo", kNoted,
     kOnCpu},
    {kTop, "command_file commands ipex_config", kNoted, kOnCpu},
    {kTop, "dynamo_config dynamo_backend", kNoted, "hone runs compiled C++"},
    {kTop, "ec2_instance_type iam_role_name image_uri profile region base_job_name pytorch_version", kNoted,
     kSageMaker},
    {kTop, "transformers_version py_version sagemaker_inputs_file sagemaker_metrics_file additional_args",
     kNoted, kSageMaker},
    {kTop, "fp8_config", kNoted, "only read with fp8, which hone does not have"},
    {kTop, "megatron_lm_config", kRefused, kOtherSplit},
    {kTop, "fsdp_config", kRead, "with distributed_type: FSDP, read as the option `fsdp_config`"},
    {kTop, "parallelism_config", kRead,
     "sizes of data parallelism (dp_replicate_size, dp_shard_size) are noted; others have to be 1"},

    {kTop, "deepspeed_config", kSection},
    {kDeepSpeed, "deepspeed_config_file", kRead, "a file, read as `deepspeed`"},
    {kDeepSpeed, "zero_stage", kRead, "see above"},
    {kDeepSpeed, "gradient_accumulation_steps", kOption, "gradient_accumulation_steps"},
    {kDeepSpeed, "gradient_clipping", kOption, "max_grad_norm"},
    {kDeepSpeed, "offload_optimizer_device offload_param_device offload_optimizer_nvme_path", kNoted,
     kInMemory},
    {kDeepSpeed, "offload_param_nvme_path", kNoted, kInMemory},
    {kDeepSpeed, "zero3_init_flag", kNoted, kWholeModel},
    {kDeepSpeed, "zero3_save_16bit_model", kNoted, kWholeFiles},
    {kDeepSpeed, "deepspeed_multinode_launcher deepspeed_hostfile deepspeed_inclusion_filter", kNoted,
     kLauncher},
    {kDeepSpeed, "deepspeed_exclusion_filter", kNoted, kLauncher},
    {kDeepSpeed, "seq_parallel_communication_data_type", kNoted, "only read with sequence parallelism"},
    {kDeepSpeed, "deepspeed_moe_layer_cls_names", kRefused, kOtherSplit},
};

constexpr ShardingRow kFsdpRows[] = {
    {kTop, "sharding_strategy reshard_after_forward", kRead,
     "FULL_SHARD is stage 3, SHARD_GRAD_OP stage 2, NO_SHARD stage 0, HYBRID_SHARD stage 3 in each host; true "
     "and false are stages 3 and 2"},
    {kTop, "version auto_wrap_policy transformer_layer_cls_to_wrap min_num_params ignored_modules", kNoted,
     kWholeModel},
    {kTop, "backward_prefetch backward_prefetch_policy forward_prefetch limit_all_gathers use_orig_params",
     kNoted, kWholeModel},
    {kTop, "sync_module_states cpu_ram_efficient_loading", kNoted, "each rank reads the model's files"},
    {kTop, "offload_params cpu_offload", kNoted, kInMemory},
    {kTop, "state_dict_type", kNoted, kWholeFiles},
    {kTop, "activation_checkpointing activation_cpu_offload activation_checkpointing_offload", kNoted,
     kRecompute},
    {kTop, "mixed_precision_policy", kNoted, "dtype and bf16 set the precision"},
    {kTop, "xla xla_fsdp_v2 xla_fsdp_settings xla_fsdp_grad_ckpt", kNoted, kOnCpu},
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
