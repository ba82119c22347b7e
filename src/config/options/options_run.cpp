// Rows: when to log, evaluate and save; the hub (transformers.TrainingArguments).
#include "config/option_table.h"

namespace hone::config {
namespace {
constexpr Choices<IntervalStrategy, 4> kSaveWords = {{{"no", IntervalStrategy::kNo},
                                                      {"steps", IntervalStrategy::kSteps},
                                                      {"epoch", IntervalStrategy::kEpoch},
                                                      {"best", IntervalStrategy::kBest}}};
constexpr Choices<IntervalStrategy, 3> kEveryWords = {{{"no", IntervalStrategy::kNo},
                                                       {"steps", IntervalStrategy::kSteps},
                                                       {"epoch", IntervalStrategy::kEpoch}}};
constexpr std::string_view kMetrics = "evaluation computes the loss and token accuracy, batch by batch";
constexpr std::string_view kToLoggers = "all wandb trackio mlflow comet_ml swanlab";  // of report_to
constexpr Choices<HubStrategy, 4> kHubWords = {{{"every_save", HubStrategy::kEverySave},
                                                {"end", HubStrategy::kEnd},
                                                {"checkpoint", HubStrategy::kCheckpoint},
                                                {"all_checkpoints", HubStrategy::kAllCheckpoints}}};
constexpr std::string_view kSamplesThem = "an evaluation samples completions and scores them";
}  // namespace

std::vector<Option> logging_options() {
  std::vector<Option> rows;
  add(rows, {"logging", kTrainingArguments, kAll},
      {{"logging_strategy", "when to log", into(&LoggingPlan::logging_strategy, kEveryWords)},
       {"logging_steps", "optimizer steps between logs; below 1: a fraction of all steps",
        &LoggingPlan::logging_steps, kWhole, count_from_zero()},
       {"logging_first_step", "log the first step too", &LoggingPlan::logging_first_step},
       {"report_to",
        "tensorboard, wandb, trackio, mlflow, comet_ml, swanlab, all, or none; metrics.jsonl is always written",
        Kind::kList, "\"none\"", kNullToo},
       {"logging_nan_inf_filter", "hide NaN losses from the log", Kind::kBool, "true",
        ignored("hone hides nothing: a loss that is NaN or infinite stops the run")},
       {"include_num_input_tokens_seen", "count the tokens", Kind::kAny, "\"no\"",
        ignored("tokens are always counted")},
       {"log_level", "verbosity of Python's logging", Kind::kString, "\"passive\"",
        ignored("hone has one progress line")},
       {"log_level_replica", "verbosity of replicas", Kind::kString, "\"warning\"",
        ignored("rank 0 has the progress line")},
       {"log_on_each_node", "log on every node", Kind::kBool, "true",
        ignored("rank 0 has the progress line")},
       {"disable_tqdm", "no progress bar", Kind::kBool, "null",
        ignored("the progress line is plain text when the output is not a terminal")},
       {"run_name", "the run's name in the loggers of report_to", &LoggerPlan::run_name, "null",
        with("report_to", kToLoggers)},
       {"project", "the project in trackio, and in wandb where WANDB_PROJECT is not set",
        &LoggerPlan::project, with("report_to", "all wandb trackio")},
       {"trackio_space_id", "the Space that trackio sends to; null: a local database",
        &LoggerPlan::trackio_space_id, "null", with("report_to", "all trackio")},
       {"trackio_bucket_id", "the bucket in which that Space keeps its data", &LoggerPlan::trackio_bucket_id,
        "null", with("report_to", "all trackio")},
       {"trackio_static_space_id", "a static Space when the run has ended", Kind::kAny, "null",
        ignored("hone freezes no Space: trackio.freeze does it when the run has ended")},
       {"skip_memory_metrics", "memory report", Kind::kBool, "true", ignored("hone reports memory itself")},
       {"debug", "look for overflow", Kind::kAny, "\"\"",
        ignored("hone always looks: a value that is not finite stops the run")}});
  add(rows, {"logging", kHone, kAll},
      {{"report_page", "write output_dir/report.html, a page of the run, while it goes on",
        &LoggingPlan::report_page},
       {"wandb_project", "becomes WANDB_PROJECT", &LoggerPlan::wandb_project, "null",
        with("report_to", "all wandb")},
       {"wandb_entity", "becomes WANDB_ENTITY", &LoggerPlan::wandb_entity, "null",
        with("report_to", "all wandb")},
       {"wandb_run_group", "becomes WANDB_RUN_GROUP", &LoggerPlan::wandb_run_group, "null",
        with("report_to", "all wandb")},
       {"mlflow_tracking_uri", "becomes MLFLOW_TRACKING_URI", &LoggerPlan::mlflow_tracking_uri, "null",
        with("report_to", "all mlflow")},
       {"mlflow_experiment_name", "becomes MLFLOW_EXPERIMENT_NAME", &LoggerPlan::mlflow_experiment_name,
        "null", with("report_to", "all mlflow")}});
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
        in("online-dpo, distill", {.meaning = "prompts of an evaluation batch"})},
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
      {{"save_strategy", "when to save; best: after an evaluation that is the best so far",
        into(&SavingPlan::save_strategy, kSaveWords)},
       {"save_steps", "optimizer steps between checkpoints; below 1: a fraction of all steps",
        &SavingPlan::save_steps, kWhole, count_from_zero()},
       {"save_total_limit", "checkpoints to keep, and the best one; null, 0 and below: all",
        &SavingPlan::save_total_limit, "null"},
       {"save_only_model", "checkpoints without optimizer state", Kind::kBool, "false",
        ignored("hone's checkpoints always hold what resuming needs")},
       {"save_on_each_node", "save on every node", Kind::kBool, "false",
        ignored("rank 0 writes checkpoints, and the others read them")},
       {"enable_jit_checkpoint", "save when the job is preempted", Kind::kBool, "false",
        ignored("hone saves when it is interrupted")},
       {"load_best_model_at_end", "the adapter in output_dir is that of the best checkpoint",
        &SavingPlan::load_best_model_at_end},
       {"metric_for_best_model",
        "the evaluation's metric that ranks checkpoints, and that reduce_lr_on_plateau and greedy follow; null: "
        "eval_loss where it is needed",
        &SavingPlan::metric_for_best_model},
       {"greater_is_better", "a larger metric is better; null: unless its name ends with loss",
        &SavingPlan::greater_is_better, "null"},
       {"push_to_hub", "upload adapter, tokenizer and a model card, by your own huggingface_hub",
        &HubPlan::push_to_hub},
       {"hub_model_id", "repository on the hub; null: the name of output_dir", &HubPlan::hub_model_id, "null",
        with("push_to_hub")},
       {"hub_token", "token for the hub; null: the one that huggingface_hub has", &HubPlan::hub_token, "null",
        with("push_to_hub")},
       {"hub_private_repo", "a new repository is private; null: as the account says",
        &HubPlan::hub_private_repo, with("push_to_hub")},
       {"hub_strategy", "when to upload; checkpoint and all_checkpoints upload these folders too",
        into(&HubPlan::hub_strategy, kHubWords), with("push_to_hub")},
       {"hub_always_push", "upload every save, also while an earlier upload goes on",
        &HubPlan::hub_always_push, with("push_to_hub")},
       {"hub_revision", "branch on the hub; null: main", &HubPlan::hub_revision, "null",
        with("push_to_hub")}});
  add(rows, {"saving", kHone, kAll},
      {{"stop_grace",
        "seconds that a step may go on after a signal to stop; then it is cut short, and the steps before it are saved",
        &SavingPlan::stop_grace, at_least(0)}});
  return rows;
}

}  // namespace hone::config
