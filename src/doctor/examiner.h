// Runs the examination in a training run, before step 1.
#pragma once

#include <vector>

#include "doctor/examination.h"
#include "train/loop/guard.h"

namespace hone::doctor {

// Examines the run before its first step. Reports every warning, failure and note to `listener`, then one
// verdict without a code, with the parts without a fault and the time. A failure is thrown as a UserError:
// nothing is trained.
class Examiner final : public train::RunGuard {
 public:
  // `listener` outlives it.
  Examiner(ExamOptions options, train::RunListener& listener)
      : options_(std::move(options)), listener_(listener) {}
  void before_first_step(const train::RunView& run) override;

 private:
  ExamOptions options_;
  train::RunListener& listener_;
};

// Combines several guards, called in order; they outlive it. It pauses when one of them pauses; the pinned
// step is their latest.
class Guards final : public train::RunGuard {
 public:
  void add(train::RunGuard& guard) { guards_.push_back(&guard); }
  void before_first_step(const train::RunView& run) override;
  void on_backward(std::int64_t step, const train::StepLoss& loss, const adapters::Adapter& adapter) override;
  void on_not_finite(std::int64_t step, double loss, double grad_norm) override;
  train::GuardAction on_step(const train::StepFacts& facts, const adapters::Adapter& adapter) override;
  void on_save(const std::string& folder, std::int64_t step) override;
  train::StateFiles state_files() const override;
  std::int64_t pinned_step() const override;

 private:
  std::vector<train::RunGuard*> guards_;
};

}  // namespace hone::doctor
