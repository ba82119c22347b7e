#include "train/loop/run_saves.h"

#include <exception>
#include <utility>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/mapped_files.h"
#include "base/files/retry.h"
#include "base/json.h"
#include "base/step_progress.h"
#include "base/stopwatch.h"
#include "base/where.h"
#include "parallel/turns.h"
#include "rewards/reward.h"
#include "train/loop/guard.h"
#include "train/passes/moving_reference.h"
#include "train/saves/run_folder.h"

namespace hone::train {

RunSaves::RunSaves(const LoopParts& parts, const Intervals& intervals, StepAccount& account)
    : p_(parts), intervals_(intervals), account_(account), first_step_(parts.state.step) {}

// ---- the end by an error

// The exception that is being handled.
void RunSaves::save_before_end() {
  if (p_.steps.is_half_done()) throw;
  try {
    throw;
  } catch (const GuardStop&) {
    throw;
  } catch (const base::StopCut&) {
    if (p_.state.step > 0 && !is_saved()) write_alone();
    throw;
  } catch (const rewards::RewardUnavailable&) {
    // Ctrl-C while a reward was waited for: the step that it cut short was not done.
    if (!p_.stop_requested.load() || p_.state.step == 0) throw_saved();
    if (!is_saved()) write_alone();
    throw base::StopCut();
  } catch (const base::UserError&) {
    try {
      base::require_readable();  // a truncated file's zeros may be what is wrong
    } catch (const base::UserError&) {
      throw_saved();
    }
    throw_saved();
  } catch (const std::exception&) {
    save_completed();
    throw;
  }
}

// The UserError that is being handled, with what became of the last step.
void RunSaves::throw_saved() {
  const auto with_words = [this](const base::UserError& error) {
    base::ErrorText text = error.text();
    const std::string words = save_completed();
    if (!words.empty()) text.fix += (text.fix.empty() ? "" : "; ") + words;
    return text;
  };
  try {
    throw;
  } catch (const parallel::RankFault& fault) {
    throw parallel::RankFault(fault.kind(), fault.ranks(), with_words(fault));
  } catch (const base::UserError& error) {
    throw base::UserError(with_words(error));
  }
}

bool RunSaves::is_saved() const {
  return base::fs::exists(checkpoint_path(p_.plan.output_dir, p_.state.step) / kHoneStateFile);
}

// What became of it, for the message; empty: no step was done. Never throws: the error that ends the run is
// the one to be told.
std::string RunSaves::save_completed() {
  const std::int64_t step = p_.state.step;
  const base::fs::path folder = checkpoint_path(p_.plan.output_dir, step);
  if (step == 0 || !p_.ranks.leads()) return "";
  const std::string go_on = "continue with --resume_from_checkpoint true";
  try {
    if (is_saved()) return folder.string() + " contains the last step: " + go_on;
    if (p_.steps.shards() != nullptr)
      return "step " + std::to_string(step) +
             " was not saved, because every rank has a part of it; earlier checkpoints are complete";
    write_alone();  // no collective: other ranks may be gone
    return "step " + std::to_string(step) + " was saved first, in " + folder.string() + ": " + go_on;
  } catch (const base::UserError& error) {
    return "step " + std::to_string(step) + " could not be saved: " + error.text().where + ": " +
           error.text().found;
  } catch (const std::exception& error) {
    return "step " + std::to_string(step) + " could not be saved: " + error.what();
  }
}

// ---- checkpoints

CheckpointParts RunSaves::checkpoint_parts() {
  facts_ = {.max_steps = p_.method.total_steps(),
            .logging_steps = intervals_.logging,
            .eval_steps = intervals_.eval,
            .save_steps = intervals_.save,
            .train_batch_size = p_.plan.per_device_train_batch_size,
            .num_train_epochs = p_.plan.num_train_epochs,
            .epoch = p_.method.epoch_after(p_.state.step),
            .best_model_checkpoint = best_folder().string()};
  StateFiles files = p_.method.state_files();
  if (p_.guard != nullptr) {
    for (auto& file : p_.guard->state_files()) files.push_back(std::move(file));
  }
  return {.adapter = p_.adapter,
          .optimizer = p_.optimizer,
          .state = p_.state,
          .facts = facts_,
          .plan = p_.plan,
          .tokenizer = p_.tokenizer,
          .method_files = std::move(files),
          .best = {},
          .reference = p_.reference == nullptr ? at::Tensor() : p_.reference->values(),
          .shards = p_.steps.shards()};
}

// Empty: none yet.
base::fs::path RunSaves::best_folder() const {
  const std::int64_t step = p_.state.best.saved;
  return step == 0 ? base::fs::path() : checkpoint_path(p_.plan.output_dir, step);
}

void RunSaves::save(bool last) {
  const BestCheckpoint before = p_.state.best;
  note_saved(p_.state.best, p_.plan.output_dir, p_.state.step);
  const auto write = [&] {
    try {
      write_checkpoint();
    } catch (const base::StorageGone& gone) {
      if (last) throw;
      p_.state.best = before;
      p_.listener.on_rollout({.step = p_.state.step, .warnings = {not_saved(gone.text())}});
    }
  };
  by_rank_0(write, "checkpoint");
  if (!p_.ranks.leads() || is_saved()) p_.method.on_saved(p_.state.step);
}

std::string RunSaves::not_saved(const base::ErrorText& why) const {
  return "step " + std::to_string(p_.state.step) + " was not saved: " + why.where + ": " + why.found +
         "; the run goes on, and earlier checkpoints are complete";
}

// `write` by rank 0, which reads what other ranks keep.
void RunSaves::by_rank_0(const std::function<void()>& write, std::string_view what) {
  parallel::all_or_none(p_.ranks, [&] { p_.steps.reading(p_.ranks, write); }, what);
}

// Without the other ranks.
void RunSaves::write_alone() {
  if (!p_.ranks.leads() || p_.steps.shards() != nullptr) return;
  note_saved(p_.state.best, p_.plan.output_dir, p_.state.step);
  write_checkpoint();
}

void RunSaves::write_checkpoint() {
  const auto start = base::Clock::now();
  base::begin_part("saving a checkpoint", "", 0);
  base::retry_storage([&] { save_checkpoint(p_.plan.output_dir, checkpoint_parts()); });
  const std::string folder = checkpoint_path(p_.plan.output_dir, p_.state.step).string();
  base::where.checkpoint.store(p_.state.step, std::memory_order_relaxed);
  if (p_.guard != nullptr) p_.guard->on_save(folder, p_.state.step);
  try {
    base::retry_storage([&] { rotate(); });
  } catch (const base::StorageGone& gone) {  // of what is removed, not of what was saved
    p_.listener.on_rollout({.step = p_.state.step,
                            .warnings = {"earlier checkpoints were not removed: " + gone.text().where + ": " +
                                         gone.text().found}});
  }
  base::end_parts();
  account_.spend("save", base::seconds_since(start));
  p_.listener.on_save(folder, p_.state.step);
}

void RunSaves::rotate() {
  rotate_checkpoints(p_.plan.output_dir, {.keep = p_.plan.save_total_limit,
                                          .written = p_.state.step,
                                          .pinned = p_.guard != nullptr ? p_.guard->pinned_step() : -1,
                                          .best = p_.state.best.saved > 0 ? p_.state.best.saved : -1});
}

// ---- the result

// The record of the end of the finished run that this one only repeats: nothing was left to do.
bool RunSaves::has_earlier_end() {
  const base::fs::path path = base::fs::path(p_.plan.output_dir) / kTrainerStateFile;
  if (p_.state.step > first_step_ || !base::fs::exists(path)) return false;
  try {
    const base::Json earlier = base::parse_json(base::read_text(path), path.string());
    if (!earlier.is_object() || earlier.value("global_step", base::Json()) != p_.state.step) return false;
    const base::Json log = earlier.value("log_history", base::Json::array());
    if (!log.is_array() || log.empty() || !log.back().contains("train_runtime")) return false;
    p_.state.log_history.push_back(log.back());
    return true;
  } catch (const base::UserError&) {  // no JSON: it is replaced
    return false;
  }
}

void RunSaves::finish(const std::function<void()>& record_end) {
  by_rank_0([&] { write_result(record_end); }, "result");
}

void RunSaves::write_result(const std::function<void()>& record_end) {
  // A run that was stopped between its last save and what save_total_limit removes after it.
  if (p_.state.step == first_step_ && is_saved()) rotate();
  if (!has_earlier_end()) record_end();
  CheckpointParts parts = checkpoint_parts();
  if (p_.plan.load_best_model_at_end) parts.best = best_folder();
  base::retry_storage([&] { publish_final(p_.plan.output_dir, parts); });
  // transformers, too, keeps only the best of a limit of one; its trainer_state.json is at the top.
  if (!parts.best.empty() && p_.plan.save_total_limit == 1) {
    rotate_checkpoints(p_.plan.output_dir, {.keep = 1, .written = p_.state.best.saved});
  }
}

}  // namespace hone::train
