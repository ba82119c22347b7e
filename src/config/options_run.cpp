// Rows: when to speak, evaluate and save; the hub; the machine (transformers.TrainingArguments).
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr std::string_view kTracker = "read by trackers alone, which hone does not call";
constexpr std::string_view kHub = "only read with push_to_hub, which hone does not have";
constexpr std::string_view kBest = "only read with load_best_model_at_end, which hone does not have yet";
constexpr std::string_view kLoader = "hone reads and prepares rows itself, without loader processes";
constexpr std::string_view kOneProcess = "hone runs in one process";
constexpr std::string_view kMetrics = "evaluation computes the loss and token accuracy, batch by batch";

std::vector<Option> grouped(std::vector<Option> rows, std::string_view group) {
  for (Option& row : rows) row = row.from(Origin::kTrainingArguments).under(group);
  return rows;
}
}  // namespace

std::vector<Option> reporting_options() {
  std::vector<Option> rows = grouped(
      {
          Option{"logging_strategy", Kind::kChoice, "\"steps\"", "when to log"}.choice("no steps epoch"),
          Option{"logging_steps", Kind::kFloat, "10",
                 "optimizer steps between logs; below 1: a share of all steps"}
              .within(count_from_zero()),
          {"logging_first_step", Kind::kBool, "false", "log the first step too"},
          {"report_to", Kind::kList, "\"none\"", "tensorboard or none; metrics.jsonl is always written"},
          Option{"logging_nan_inf_filter", Kind::kBool, "true", "hide NaN losses from the log"}.answered(
              "hone hides nothing: a loss that is NaN or infinite stops the run"),
          Option{"include_num_input_tokens_seen", Kind::kAny, "\"no\"", "count the tokens"}.answered(
              "tokens are always counted"),
          Option{"log_level", Kind::kString, "\"passive\"", "verbosity of Python's logging"}.answered(
              "hone has one progress line"),
          Option{"log_level_replica", Kind::kString, "\"warning\"", "verbosity of replicas"}.answered(
              kOneProcess),
          Option{"log_on_each_node", Kind::kBool, "true", "log on every node"}.answered(kOneProcess),
          Option{"disable_tqdm", Kind::kBool, "null", "no progress bar"}.answered(
              "the progress line is plain where the output is not a terminal"),
          Option{"run_name", Kind::kString, "null", "the run's name for trackers"}.answered(kTracker),
          Option{"project", Kind::kString, "\"huggingface\"", "the project's name for trackers"}.answered(
              kTracker),
          Option{"trackio_space_id", Kind::kString, "null", "Trackio"}.answered(kTracker),
          Option{"trackio_bucket_id", Kind::kString, "null", "Trackio"}.answered(kTracker),
          Option{"trackio_static_space_id", Kind::kAny, "null", "Trackio"}.answered(kTracker),
          Option{"skip_memory_metrics", Kind::kBool, "true", "memory report"}.answered(
              "hone reports memory itself"),
          Option{"debug", Kind::kAny, "\"\"", "look for overflow"}.answered(
              "hone always looks: a value that is not finite stops the run"),
      },
      "logging");
  const std::vector<Option> evaluation = grouped(
      {
          Option{"eval_strategy", Kind::kChoice, "\"no\"", "when to evaluate"}.choice("no steps epoch"),
          Option{"eval_steps", Kind::kFloat, "null",
                 "optimizer steps between evaluations; below 1: a share of all steps; null: logging_steps"}
              .within(count_from_zero()),
          Option{"eval_delay", Kind::kFloat, "0", "wait before the first evaluation"}.refused("not yet"),
          {"eval_on_start", Kind::kBool, "false", "evaluate before step 1"},
          Option{"per_device_eval_batch_size", Kind::kInt, "8", "rows of an evaluation batch"}.within(
              at_least(1)),
          Option{"prediction_loss_only", Kind::kBool, "false", "return the loss alone"}.answered(kMetrics),
          Option{"eval_do_concat_batches", Kind::kBool, "true", "join predictions"}.answered(kMetrics),
          Option{"eval_use_gather_object", Kind::kBool, "false", "gather nested objects"}.answered(kMetrics),
          Option{"eval_accumulation_steps", Kind::kInt, "null", "move predictions to the CPU"}.answered(
              kMetrics),
          Option{"include_for_metrics", Kind::kList, "[]", "inputs of compute_metrics"}.answered(kMetrics),
          Option{"batch_eval_metrics", Kind::kBool, "false", "metrics batch by batch"}.answered(kMetrics),
      },
      "evaluation");
  rows.insert(rows.end(), evaluation.begin(), evaluation.end());
  return rows;
}

std::vector<Option> saving_options() {
  return grouped(
      {
          Option{"save_strategy", Kind::kChoice, "\"steps\"", "when to save"}.choice("no steps epoch", "",
                                                                                     "best", "not yet"),
          Option{"save_steps", Kind::kFloat, "500",
                 "optimizer steps between checkpoints; below 1: a share of all steps"}
              .within(count_from_zero()),
          Option{"save_total_limit", Kind::kInt, "null", "checkpoints to keep; null: all"}.within(
              at_least(1)),
          Option{"save_only_model", Kind::kBool, "false", "checkpoints without optimizer state"}.answered(
              "hone's checkpoints always hold what resuming needs"),
          Option{"save_on_each_node", Kind::kBool, "false", "save on every node"}.answered(kOneProcess),
          Option{"enable_jit_checkpoint", Kind::kBool, "false", "save when the machine is taken away"}
              .answered("hone saves when it is interrupted"),
          Option{"load_best_model_at_end", Kind::kBool, "false", "end with the best checkpoint"}.refused(
              "not yet"),
          Option{"metric_for_best_model", Kind::kString, "null", "metric that ranks checkpoints"}.answered(
              kBest),
          Option{"greater_is_better", Kind::kBool, "null", "direction of that metric"}.answered(kBest),
          Option{"push_to_hub", Kind::kBool, "false", "upload the model"}.refused(
              "hone writes local files; upload output_dir with `hf upload`"),
          Option{"hub_model_id", Kind::kString, "null", "repository on the hub"}.answered(kHub),
          Option{"hub_token", Kind::kString, "null", "token for the hub"}.answered(kHub),
          Option{"hub_private_repo", Kind::kBool, "null", "private repository"}.answered(kHub),
          Option{"hub_strategy", Kind::kString, "\"every_save\"", "when to upload"}.answered(kHub),
          Option{"hub_always_push", Kind::kBool, "false", "do not wait for earlier uploads"}.answered(kHub),
          Option{"hub_revision", Kind::kString, "null", "branch on the hub"}.answered(kHub),
      },
      "saving");
}

std::vector<Option> machine_options() {
  std::vector<Option> rows = grouped(
      {
          Option{"use_cpu", Kind::kBool, "false", "train on the CPU"}.answered(
              "this build trains on the CPU"),
          Option{"torch_empty_cache_steps", Kind::kInt, "null", "empty PyTorch's GPU cache"}.answered(
              "there is no cache to empty"),
          Option{"dataloader_num_workers", Kind::kInt, "0", "loader processes"}.answered(kLoader),
          Option{"dataloader_pin_memory", Kind::kBool, "true", "pinned memory"}.answered(kLoader),
          Option{"dataloader_persistent_workers", Kind::kBool, "false", "keep loader processes"}.answered(
              kLoader),
          Option{"dataloader_prefetch_factor", Kind::kInt, "null", "batches loaded ahead"}.answered(kLoader),
          Option{"dataloader_multiprocessing_context", Kind::kString, "null", "how loaders start"}.answered(
              kLoader),
          Option{"dataloader_in_order", Kind::kBool, "true", "batches in order"}.answered(kLoader),
          Option{"remove_unused_columns", Kind::kBool, "true", "drop other columns"}.answered(
              "other columns are never read"),
          Option{"label_names", Kind::kList, "null", "names of the labels"}.answered(
              "hone makes the labels itself"),
          Option{"accelerator_config", Kind::kAny, "null", "settings of Accelerate"}.refused("not yet"),
          Option{"parallelism_config", Kind::kAny, "null", "parallelism of Accelerate"}.refused("not yet"),
          Option{"fsdp", Kind::kAny, "null", "sharded training"}.refused("not yet: one process"),
          Option{"fsdp_config", Kind::kAny, "null", "settings of FSDP"}.answered(
              "only read with fsdp, which hone does not have yet"),
          Option{"deepspeed", Kind::kAny, "null", "DeepSpeed"}.answered(
              "one process: there is nothing to shard, whatever the stage; memory is planned before step 1"),
          Option{"ddp_find_unused_parameters", Kind::kBool, "null", "distributed"}.answered(kOneProcess),
          Option{"ddp_bucket_cap_mb", Kind::kInt, "null", "distributed"}.answered(kOneProcess),
          Option{"ddp_broadcast_buffers", Kind::kBool, "null", "distributed"}.answered(kOneProcess),
          Option{"ddp_static_graph", Kind::kBool, "null", "distributed"}.answered(kOneProcess),
          Option{"ddp_backend", Kind::kString, "null", "distributed"}.answered(kOneProcess),
          Option{"ddp_timeout", Kind::kInt, "1800", "distributed"}.answered(kOneProcess),
          Option{"local_rank", Kind::kInt, "-1", "distributed"}.answered(kOneProcess),
      },
      "machine");
  rows.push_back(
      Option{"threads", Kind::kInt, "0", "threads; 0: as many as the processors this process may use"}
          .within({.least = 0, .most = kMostThreads})
          .under("machine"));
  rows.push_back(
      Option{"recompute", Kind::kChoice, "\"auto\"",
             "what the backward computes again; results are bit-equal, memory falls and time grows in "
             "this order: none, cheap (norms and SwiGLU), layer; auto: the first that fits memory_limit"}
          .choice("auto none cheap layer")
          .under("machine"));
  rows.push_back(Option{"layer_form", Kind::kChoice, "\"auto\"",
                        "explicit: a layer with a hand-written backward, for LoRA on frozen linears; plain: "
                        "the same under autograd; auto: explicit where it can"}
                     .choice("auto explicit plain")
                     .under("machine"));
  rows.push_back(Option{"memory_limit", Kind::kString, "null",
                        "most memory of the run: 2.05GB, 900MiB or bytes; null or 0: what is free"}
                     .under("machine"));
  rows.push_back(Option{"env", Kind::kMap, "{}", "environment variables to set, in a YAML file"}
                     .answered("hone reads no environment variables")
                     .from(Origin::kTrlCommand)
                     .under("machine"));
  rows.push_back(Option{"accelerate_config", Kind::kString, "null", "how Accelerate launches processes"}
                     .refused("not yet: one process")
                     .from(Origin::kTrlCommand)
                     .under("machine"));
  return rows;
}

std::vector<Option> doctor_options() {
  std::vector<Option> rows = {
      {"skip_doctor", Kind::kBool, "false", "no examination before step 1; the watch stays"},
      Option{"on_fault", Kind::kChoice, "\"pause\"",
             "a fault found while the run goes on: warn, pause (save and end, to be resumed) or stop (end at "
             "once)"}
          .choice("warn pause stop"),
  };
  for (Option& row : rows) row = row.under("doctor");
  return rows;
}

}  // namespace hone::config
