// Rows: the machine and the doctor.
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr Choices<RecomputeMode, 4> kRecomputeWords = {{{"auto", RecomputeMode::kAuto},
                                                        {"none", RecomputeMode::kNone},
                                                        {"cheap", RecomputeMode::kCheap},
                                                        {"layer", RecomputeMode::kLayer}}};
constexpr Choices<LayerForm, 3> kLayerFormWords = {
    {{"auto", LayerForm::kAuto}, {"explicit", LayerForm::kFused}, {"plain", LayerForm::kAutograd}}};
constexpr Choices<OnFault, 3> kOnFaultWords = {
    {{"warn", OnFault::kWarn}, {"pause", OnFault::kPause}, {"stop", OnFault::kStop}}};
constexpr std::string_view kLoader = "hone reads and prepares rows itself, without loader processes";
constexpr std::string_view kOtherColumns = "rewards are given every other column of the data";
constexpr std::string_view kSharding = "each key is read, with notes (docs/ranks.md)";
constexpr std::string_view kOneBuffer = "ranks exchange gradients in one buffer, after the backward";
}  // namespace

std::vector<Option> machine_options() {
  std::vector<Option> rows;
  add(rows, {"machine", kTrainingArguments, kAll},
      {{"use_cpu", "train on the CPU, as device: cpu", Kind::kBool, "false"},
       {"torch_empty_cache_steps", "empty PyTorch's GPU cache", Kind::kInt, "null",
        ignored("the memory plan counts that cache, and a step takes its memory from there")},
       {"dataloader_num_workers", "loader processes", Kind::kInt, "0", ignored(kLoader)},
       {"dataloader_pin_memory", "pinned memory", Kind::kBool, "true", ignored(kLoader)},
       {"dataloader_persistent_workers", "keep loader processes", Kind::kBool, "false", ignored(kLoader)},
       {"dataloader_prefetch_factor", "batches loaded ahead", Kind::kInt, "null", ignored(kLoader)},
       {"dataloader_multiprocessing_context", "how loaders start", ignored(kLoader)},
       {"dataloader_in_order", "batches in order", Kind::kBool, "true", ignored(kLoader)},
       {"remove_unused_columns", "drop other columns", Kind::kBool, "true",
        ignored("other columns are never read"),
        in(kHoneSamplers, {.default_text = "false",
                           .option_class = OptionClass::kRefused,
                           .reason = kOtherColumns,
                           .null_too = true})},
       {"label_names", "names of the labels", Kind::kList, "null", ignored("hone makes the labels itself")},
       {"accelerator_config", "settings of Accelerate", Kind::kAny, "null",
        ignored("they are about several processes and the way of batches to a device")},
       {"parallelism_config", "parallelism of Accelerate", Kind::kAny, "null",
        ignored("sizes of data parallelism are those of the ranks; others are 1")},
       {"fsdp", "sharded training", Kind::kAny, "null", ignored(kSharding)},
       {"fsdp_config", "settings of FSDP", Kind::kAny, "null", ignored(kSharding)},
       {"deepspeed", "settings of DeepSpeed, or their JSON file", Kind::kAny, "null", ignored(kSharding)},
       {"ddp_find_unused_parameters", "distributed", Kind::kBool, "null",
        ignored("the gradient of a parameter without use is 0 on every rank")},
       {"ddp_bucket_cap_mb", "distributed", Kind::kInt, "null", ignored(kOneBuffer)},
       {"ddp_broadcast_buffers", "distributed", Kind::kBool, "null",
        ignored("each rank reads the model's files, and has the same buffers")},
       {"ddp_static_graph", "distributed", Kind::kBool, "null", ignored(kOneBuffer)},
       {"ddp_backend", "distributed", ignored("ranks exchange through Gloo")},
       {"ddp_timeout", "seconds that a rank waits for the others before it calls them lost",
        &MachinePlan::ddp_timeout, Range{.least = 1, .most = kMaxSteps}},
       {"local_rank", "distributed", Kind::kInt, "-1", ignored("the launcher's variables say it")}});
  add(rows, {"machine", kHone, kAll},
      {{"device",
        "where the model is: cpu; cuda or cuda:N, a GPU of NVIDIA; auto: cuda:0 if there is one, else cpu",
        &MachinePlan::device, choice("cpu cuda cuda:N auto")},
       {"threads", "threads; 0: as many as the processors this process may use", &MachinePlan::threads,
        Range{.least = 0, .most = 4096}},
       {"recompute",
        "what the backward recomputes; results are bit-equal, memory falls and time grows in this "
        "order: none, cheap (norms and SwiGLU), layer; auto: the first that fits memory_limit",
        into(&MachinePlan::recompute, kRecomputeWords)},
       {"layer_form",
        "explicit: the fused layer with a hand-written backward, for LoRA on frozen linears; plain: "
        "the autograd layer; auto: explicit where supported",
        into(&MachinePlan::layer_form, kLayerFormWords)},
       {"zero_stage",
        "full fine-tuning by several ranks: each keeps its share of 1: the optimizer's state; 2: and the "
        "gradients; 3: and the layers' parameters",
        &MachinePlan::zero_stage, Range{.least = 0, .most = 3}},
       {"offload_folder",
        "full fine-tuning: a folder for a file that holds the optimizer's state, instead of memory",
        &MachinePlan::offload_folder},
       {"memory_limit", "memory limit of the run: 2.05GB, 900MiB or bytes; null or 0: what is free",
        bytes(&MachinePlan::memory_limit)}});
  add(rows, {"machine", kTrlCommand, kAll},
      {{"env", "environment variables to set, in a YAML file", Kind::kMap, "{}",
        ignored("hone reads no environment variables")},
       {"accelerate_config", "settings of accelerate launch, or their YAML file", Kind::kAny, "null",
        ignored(kSharding)}});
  return rows;
}

std::vector<Option> doctor_options() {
  std::vector<Option> rows;
  add(rows, {"doctor", kHone, kAll},
      {{"skip_doctor", "no checks before step 1; the watch stays on", &WatchPlan::skip_doctor},
       {"probe_rewards",
        "before step 1, call the rewards with right answers and with junk, and the tools; false: not at all",
        &WatchPlan::probe_rewards, of(kScorers)},
       {"on_fault",
        "a fault found during the run: warn, pause (save and end, to be resumed) or stop (end at once)",
        into(&WatchPlan::on_fault, kOnFaultWords)}});
  return rows;
}

}  // namespace hone::config
