#include "doctor/examination.h"

#include <algorithm>
#include <chrono>

namespace hone::doctor {

namespace {

bool has_level(const Examination& examination, base::Level level) {
  return std::any_of(examination.parts.begin(), examination.parts.end(), [level](const ExamPart& part) {
    return std::any_of(part.verdicts.begin(), part.verdicts.end(),
                       [level](const base::Verdict& one) { return one.level == level; });
  });
}

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

bool Examination::failed() const {
  return has_level(*this, base::Level::kFail);
}

bool Examination::warned() const {
  return has_level(*this, base::Level::kWarn);
}

std::vector<const base::Verdict*> Examination::failures() const {
  std::vector<const base::Verdict*> out;
  for (const ExamPart& part : parts) {
    for (const base::Verdict& one : part.verdicts) {
      if (one.level == base::Level::kFail) out.push_back(&one);
    }
  }
  return out;
}

Examination examine(train::OpenedRun& run, const ExamOptions& options,
                    const std::function<void(const ExamPart&)>& on_part) {
  const auto start = Clock::now();
  const bool deep = options.depth == Depth::kDeep;
  const bool samples = run.prompts() != nullptr;
  Examination out;
  // Those that run the model are of no use once a part before them has failed.
  const auto part = [&](const std::string& name, bool runs_model, const std::function<Verdicts()>& look) {
    if (runs_model && out.failed()) return;
    const auto begin = Clock::now();
    ExamPart found{.name = name, .verdicts = look()};
    for (base::Verdict& one : found.verdicts) one.part = name;
    found.seconds = seconds_since(begin);
    out.parts.push_back(std::move(found));
    if (on_part) on_part(out.parts.back());
  };
  part("config", false, [&] { return check_plan(run); });
  part("data", false, [&] { return check_data(run); });
  part("budget", false, [&] { return probe_budget(run); });
  if (samples) part("reward", false, [&] { return probe_reward(run, options.depth); });
  part("hardware", false, [&] { return probe_hardware(run, options); });
  part("gradient", true, [&] { return probe_gradient(run); });
  part("numerics", true, [&] { return probe_loss(run); });
  if (samples) part("rollout", true, [&] { return probe_sampler(run); });
  if (deep) {
    if (samples) part("rollouts", true, [&] { return probe_rollout(run); });
    part("learning", true, [&] { return probe_overfit(run); });
    part("files", true, [&] { return probe_round_trip(run); });
    part("resume", true, [&] { return probe_resume(run); });
  }
  out.seconds = seconds_since(start);
  return out;
}

}  // namespace hone::doctor
