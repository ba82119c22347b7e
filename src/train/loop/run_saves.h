// What a run writes to output_dir besides its log: checkpoints, the result, and, when an error ends it, a checkpoint of
// the last step that was done.
#pragma once

#include <optional>
#include <string>

#include "base/process/stop_request.h"
#include "train/loop/loop.h"
#include "train/loop/step_account.h"
#include "train/loop/triggers.h"
#include "train/saves/checkpoint.h"

namespace hone::train {

class RunSaves {
 public:
  // `account` is told how long saving takes. All must outlive it.
  RunSaves(const LoopParts& parts, const Intervals& intervals, StepAccount& account);

  // A checkpoint of RunState::step. Storage that does not answer ends no run that goes on, since the next checkpoint may be
  // saved: only where `last` is set.
  void save(bool last);
  // The finished adapter or model at the top of output_dir. `record_end` logs the run's end, where it was not logged before.
  void finish(const std::function<void()>& record_end);

  // call(), before whose error ends the run the last step that was done is saved; a UserError tells where. A request to
  // stop that cuts call() short ends in base::StopCut.
  template <typename Call>
  auto saving_first(const Call& call) -> decltype(call()) {
    try {
      std::optional<base::CutScope> cuts;  // of several ranks: in parallel/turns.h
      if (!p_.ranks.several() && p_.steps.can_be_cut()) cuts.emplace();
      return call();
    } catch (...) {
      save_before_end();
    }
  }

 private:
  [[noreturn]] void save_before_end();
  [[noreturn]] void throw_saved();
  std::string save_completed();
  bool is_saved() const;
  void by_rank_0(const std::function<void()>& write, std::string_view what);
  void write_alone();
  void write_checkpoint();
  void write_result(const std::function<void()>& record_end);
  void rotate();
  bool has_earlier_end();
  std::string not_saved(const base::ErrorText& why) const;
  CheckpointParts checkpoint_parts();
  base::fs::path best_folder() const;

  const LoopParts& p_;
  Intervals intervals_;
  StepAccount& account_;
  std::int64_t first_step_;
  TrainerStateFacts facts_;
};

}  // namespace hone::train
