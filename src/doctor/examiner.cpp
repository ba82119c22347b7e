#include "doctor/examiner.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/release_pages.h"
#include "ops/machine/device_memory.h"

namespace hone::doctor {

namespace {

bool is_right(const ExamPart& part) {
  return std::all_of(part.verdicts.begin(), part.verdicts.end(),
                     [](const base::Verdict& one) { return one.level < base::Level::kWarn; });
}

std::string tenths(double seconds) {
  const auto number = std::llround(seconds * 10);
  return std::to_string(number / 10) + "." + std::to_string(number % 10) + " s";
}

std::string summary(const Examination& examination) {
  std::string names;
  for (const ExamPart& part : examination.parts) {
    if (is_right(part)) names += (names.empty() ? "" : ", ") + part.name;
  }
  return names + (names.empty() ? "" : "; ") + tenths(examination.seconds);
}

[[noreturn]] void stop(const std::vector<const base::Verdict*>& failures) {
  const base::Verdict& first = *failures.front();
  std::string found = first.code + (first.code.empty() ? "" : ": ") + first.what;
  if (failures.size() > 1) found += ", and " + std::to_string(failures.size() - 1) + " more above";
  throw base::UserError(
      {.where = "doctor",
       .expected = "a run that can learn",
       .found = found,
       .cause = first.cause,
       .fix = (first.fix.empty() ? "" : first.fix + "; ") + "--skip_doctor true trains anyway"});
}

}  // namespace

void Examiner::before_first_step(const train::RunView& run) {
  const Examination examination = examine(run, options_, [this](const ExamPart& part) {
    for (const base::Verdict& one : part.verdicts) {
      if (one.level != base::Level::kOk) listener_.on_verdict(one, 0);
    }
  });
  base::return_freed_memory();  // before the run's own: its peak is not the examination's
  ops::release_device_memory(run.model->device());
  const std::vector<const base::Verdict*> failures = examination.failures();
  if (!failures.empty()) stop(failures);
  listener_.on_verdict({.level = base::Level::kOk, .part = "doctor", .what = summary(examination)}, 0);
}

void Guards::before_first_step(const train::RunView& run) {
  for (train::RunGuard* guard : guards_) guard->before_first_step(run);
}

void Guards::on_backward(std::int64_t step, const train::StepLoss& loss, const adapters::Adapter& adapter) {
  for (train::RunGuard* guard : guards_) guard->on_backward(step, loss, adapter);
}

void Guards::on_not_finite(std::int64_t step, double loss, double grad_norm) {
  for (train::RunGuard* guard : guards_) guard->on_not_finite(step, loss, grad_norm);
}

train::GuardAction Guards::on_step(const train::StepFacts& facts, const adapters::Adapter& adapter) {
  train::GuardAction course = train::GuardAction::kContinue;
  for (train::RunGuard* guard : guards_) {
    if (guard->on_step(facts, adapter) == train::GuardAction::kPause) course = train::GuardAction::kPause;
  }
  return course;
}

void Guards::on_save(const std::string& folder, std::int64_t step) {
  for (train::RunGuard* guard : guards_) guard->on_save(folder, step);
}

train::StateFiles Guards::state_files() const {
  train::StateFiles out;
  for (const train::RunGuard* guard : guards_) {
    for (auto& file : guard->state_files()) out.push_back(std::move(file));
  }
  return out;
}

std::int64_t Guards::pinned_step() const {
  std::int64_t step = -1;
  for (const train::RunGuard* guard : guards_) step = std::max(step, guard->pinned_step());
  return step;
}

}  // namespace hone::doctor
