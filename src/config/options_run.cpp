// Rows: when to log, evaluate and save; the hub (transformers.TrainingArguments).
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr Choices<IntervalStrategy, 3> kEveryWords = {{{"no", IntervalStrategy::kNo},
                                                       {"steps", IntervalStrategy::kSteps},
                                                       {"epoch", IntervalStrategy::kEpoch}}};
constexpr std::string_view kMetrics = "evaluation computes the loss and token accuracy, batch by batch";
constexpr std::string_view kHub = "only read with push_to_hub, which hone does not have";
constexpr std::string_view kTracker = "read only by trackers, which hone does not call";
constexpr std::string_view kBest = "only read with load_best_model_at_end, which hone does not have yet";
constexpr std::string_view kSamplesThem = "an evaluation samples completions and scores them";
}  // namespace

std::vector<Option> logging_options() {
  std::vector<Option> rows;
  add(rows, {"logging", kTrainingArguments, kAll},
      {{"logging_strategy", "when to log", into(&LoggingPlan::logging_strategy, kEveryWords)},
       {"logging_steps", "optimizer steps between logs; below 1: a fraction of all steps",
        &LoggingPlan::logging_steps, kWhole, count_from_zero()},
       {"logging_first_step", "log the first step too", &LoggingPlan::logging_first_step},
       {"report_to", "tensorboard or none; metrics.jsonl is always written", Kind::kList, "\"none\""},
       {"logging_nan_inf_filter", "hide NaN losses from the log", Kind::kBool, "true",
        ignored("hone hides nothing: a loss that is NaN or infinite stops the run")},
       {"include_num_input_tokens_seen", "count the tokens", Kind::kAny, "\"no\"",
        ignored("tokens are always counted")},
       {"log_level", "verbosity of Python's logging", Kind::kString, "\"passive\"",
        ignored("hone has one progress line")},
       {"log_level_replica", "verbosity of replicas", Kind::kString, "\"warning\"", ignored(kOneProcess)},
       {"log_on_each_node", "log on every node", Kind::kBool, "true", ignored(kOneProcess)},
       {"disable_tqdm", "no progress bar", Kind::kBool, "null",
        ignored("the progress line is plain text when the output is not a terminal")},
       {"run_name", "the run's name for trackers", ignored(kTracker)},
       {"project", "the project's name for trackers", Kind::kString, "\"huggingface\"", ignored(kTracker)},
       {"trackio_space_id", "Trackio", ignored(kTracker)},
       {"trackio_bucket_id", "Trackio", ignored(kTracker)},
       {"trackio_static_space_id", "Trackio", Kind::kAny, "null", ignored(kTracker)},
       {"skip_memory_metrics", "memory report", Kind::kBool, "true", ignored("hone reports memory itself")},
       {"debug", "look for overflow", Kind::kAny, "\"\"",
        ignored("hone always looks: a value that is not finite stops the run")}});
  return rows;
}

std::vector<Option> evaluation_options() {
  std::vector<Option> rows;
  add(rows, {"evaluation", kTrainingArguments, kAll},
      {{"eval_strategy", "when to evaluate", into(&EvaluationPlan::eval_strategy, kEveryWords),
        formerly("evaluation_strategy")},
       {"eval_steps",
        "optimizer steps between evaluations; below 1: a fraction of all steps; null: logging_steps",
        &EvaluationPlan::eval_steps, "null", count_from_zero()},
       {"eval_delay", "no evaluation before this step; with eval_strategy epoch: before this epoch",
        &EvaluationPlan::eval_delay, kWhole, count_from_zero(), with("eval_strategy", "steps epoch")},
       {"eval_on_start", "evaluate before step 1", &EvaluationPlan::eval_on_start},
       {"per_device_eval_batch_size", "rows of an evaluation batch", &BatchPlan::per_device_eval_batch_size,
        at_least(1), formerly("per_gpu_eval_batch_size eval_batch_size"),
        in("dpo, reward, cpo, orpo", {.meaning = "pairs of an evaluation batch"}),
        in(kPolicies, {.meaning = "completions of an evaluation batch"}),
        in("online-dpo", {.meaning = "prompts of an evaluation batch"})},
       {"prediction_loss_only", "return only the loss", Kind::kBool, "false", ignored(kMetrics),
        in(kHoneSamplers, {.reason = kSamplesThem})},
       {"eval_do_concat_batches", "join predictions", Kind::kBool, "true", ignored(kMetrics),
        in(kHoneSamplers, {.reason = kSamplesThem})},
       {"eval_use_gather_object", "gather nested objects", Kind::kBool, "false", ignored(kMetrics),
        in(kHoneSamplers, {.reason = kSamplesThem})},
       {"eval_accumulation_steps", "move predictions to the CPU", Kind::kInt, "null", ignored(kMetrics),
        formerly("eval_accumulation_step"), in(kHoneSamplers, {.reason = kSamplesThem})},
       {"include_for_metrics", "inputs of compute_metrics", Kind::kList, "[]", ignored(kMetrics),
        in(kHoneSamplers, {.reason = kSamplesThem})},
       {"batch_eval_metrics", "metrics batch by batch", Kind::kBool, "false", ignored(kMetrics),
        in(kHoneSamplers, {.reason = kSamplesThem})}});
  return rows;
}

std::vector<Option> saving_options() {
  std::vector<Option> rows;
  add(rows, {"saving", kTrainingArguments, kAll},
      {{"save_strategy", "when to save", into(&SavingPlan::save_strategy, kEveryWords),
        refusing("best", "not yet")},
       {"save_steps", "optimizer steps between checkpoints; below 1: a fraction of all steps",
        &SavingPlan::save_steps, kWhole, count_from_zero()},
       {"save_total_limit", "checkpoints to keep; null: all", &SavingPlan::save_total_limit, "null",
        at_least(1)},
       {"save_only_model", "checkpoints without optimizer state", Kind::kBool, "false",
        ignored("hone's checkpoints always hold what resuming needs")},
       {"save_on_each_node", "save on every node", Kind::kBool, "false", ignored(kOneProcess)},
       {"enable_jit_checkpoint", "save when the job is preempted", Kind::kBool, "false",
        ignored("hone saves when it is interrupted")},
       {"load_best_model_at_end", "end with the best checkpoint", Kind::kBool, "false", refused("not yet")},
       {"metric_for_best_model", "metric that ranks checkpoints", ignored(kBest)},
       {"greater_is_better", "direction of that metric", Kind::kBool, "null", ignored(kBest)},
       {"push_to_hub", "upload the model", Kind::kBool, "false",
        ignored("nothing is uploaded: upload output_dir with `hf upload` when the run has ended")},
       {"hub_model_id", "repository on the hub", ignored(kHub)},
       {"hub_token", "token for the hub", ignored(kHub)},
       {"hub_private_repo", "private repository", Kind::kBool, "null", ignored(kHub)},
       {"hub_strategy", "when to upload", Kind::kString, "\"every_save\"", ignored(kHub)},
       {"hub_always_push", "do not wait for earlier uploads", Kind::kBool, "false", ignored(kHub)},
       {"hub_revision", "branch on the hub", ignored(kHub)}});
  return rows;
}

}  // namespace hone::config
