#include "doctor/examination.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/error.h"
#include "base/process/stop_request.h"
#include "base/step_progress.h"
#include "base/stopwatch.h"
#include "doctor/attempt.h"
#include "doctor/error_verdict.h"
#include "doctor/exam_cache.h"
#include "doctor/excluded.h"
#include "doctor/number_format.h"
#include "ops/machine/device_memory.h"
#include "train/loop/optimizer.h"

namespace hone::doctor {

namespace {

bool has_level(const Examination& examination, base::Level level) {
  return std::any_of(examination.parts.begin(), examination.parts.end(), [level](const ExamPart& part) {
    return std::any_of(part.verdicts.begin(), part.verdicts.end(),
                       [level](const base::Verdict& one) { return one.level == level; });
  });
}

using base::Clock;
using base::seconds_since;

// The order of the data. Those that run the model are of no use once a part before them has failed.
struct Part {
  std::string_view name;
  bool runs_model, samples, deep;
  Verdicts (*look)(const train::RunView&, const ExamOptions&);
  bool off_host = false;  // only where the model is not on the CPU; not remembered: a driver may have changed
  bool tools = false;     // only where the model may call tools
};

constexpr Part kParts[] = {
    {"config", false, false, false, [](auto& run, const auto&) { return check_plan(run); }},
    {"data", false, false, false, [](auto& run, const auto&) { return check_data(run); }},
    {"budget", false, false, false, [](auto& run, const auto&) { return probe_budget(run); }},
    {"reward", false, true, false,
     [](auto& run, const auto& options) { return probe_reward(run, options.depth); }},
    {"tools", false, true, false,
     [](auto& run, const auto& options) { return probe_tools(run, options.depth); }, false, true},
    {"hardware", false, false, false,
     [](auto& run, const auto& options) { return probe_hardware(run, options); }},
    {"device", true, false, false, [](auto& run, const auto&) { return probe_device(run); }, true},
    {"gradient", true, false, false, [](auto& run, const auto&) { return probe_gradient(run); }},
    {"numerics", true, false, false, [](auto& run, const auto&) { return probe_loss(run); }},
    {"rollout", true, true, false, [](auto& run, const auto&) { return probe_sampler(run); }},
    {"calls", true, true, false,
     [](auto& run, const auto& options) { return probe_calls(run, options.depth); }, false, true},
    {"rollouts", true, true, true, [](auto& run, const auto&) { return probe_rollout(run); }},
    {"learning", true, false, true, [](auto& run, const auto&) { return probe_overfit(run); }},
    {"files", true, false, true, [](auto& run, const auto&) { return probe_round_trip(run); }},
    {"resume", true, false, true, [](auto& run, const auto&) { return probe_resume(run); }},
};

// Parts that take optimizer steps on all gradients, for which a run that steps layer by layer, or divides among ranks, has
// no memory.
bool steps_at_once(const Part& part) {
  return part.name == "gradient" || part.name == "learning" || part.name == "resume";
}

bool has_parts_only(const train::RunView& run) {
  return run.start.memory.layer_steps || train::divided_state(run.plan).divides();
}

Verdicts without_memory(const Part& part) {
  return {{.code = "GRAD-01",
           .level = base::Level::kNote,
           .what = "not rehearsed: " + std::string(part.name),
           .evidence = "the memory plan has room for parts of gradients and optimizer only",
           .fix = "hone doctor with a smaller max_length or per_device_train_batch_size rehearses it"}};
}

// The error that the run's own first rows end in, forward only, which changes nothing; empty: they go
// through.
std::optional<Verdicts> error_of_own_rows(const train::RunView& run) {
  try {
    run.method->rehearse({.backward = false, .training = false});
  } catch (const base::UserError& error) {
    return Verdicts{verdict_of(error)};
  } catch (const base::StopCut&) {
    throw;
  } catch (const std::exception&) {
    return std::nullopt;  // the rehearsal's own: the run's steps are made otherwise
  }
  return std::nullopt;
}

// What a probe of the model could not look at is the run's failure only where the run's own rows end in an
// error too (numbers that sampling refuses); else it is a note.
Verdicts look(const Part& part, const train::RunView& run, const ExamOptions& options) {
  if (has_parts_only(run) && steps_at_once(part)) return without_memory(part);
  Verdicts out = attempt(part.name, [&] { return part.look(run, options); });
  const bool failed = std::any_of(out.begin(), out.end(), is_failed_attempt);
  if (!failed || !part.runs_model) return out;
  std::optional<Verdicts> own = error_of_own_rows(run);
  return own ? *std::move(own) : out;
}

bool takes_part(const Part& part, bool samples, Depth depth) {
  return (samples || !part.samples) && (depth == Depth::kDeep || !part.deep) && !part.off_host && !part.tools;
}

// Rewards of an evaluation are examined in runs of any method.
bool takes_part(const Part& part, const train::RunView& run, Depth depth) {
  if (part.off_host) return !ops::is_host(run.model->device());
  if (part.tools) return has_tools(run);
  return takes_part(part, run.samples() || (part.name == "reward" && has_rewards(run)), depth);
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

std::vector<std::string> exam_parts(bool samples, Depth depth) {
  std::vector<std::string> out;
  for (const Part& part : kParts) {
    if (takes_part(part, samples, depth)) out.emplace_back(part.name);
  }
  return out;
}

Examination examine(const train::RunView& run, const ExamOptions& options,
                    const std::function<void(const ExamPart&)>& on_part) {
  const auto start = Clock::now();
  Examination out;
  run.adapter->hold_gradient();  // parts of it read all gradients at once
  ExamCache cache(options.reuse && options.depth == Depth::kRun ? options.cache_dir : base::fs::path(),
                  options.program, run);
  const auto all = std::count_if(std::begin(kParts), std::end(kParts),
                                 [&](const Part& part) { return takes_part(part, run, options.depth); });
  for (const Part& part : kParts) {
    if (!takes_part(part, run, options.depth)) continue;
    if (part.runs_model && out.failed()) continue;
    const auto begin = Clock::now();
    base::begin_part("examining", "parts", all);
    base::advance_part(static_cast<std::int64_t>(out.parts.size()));
    const bool remembered = part.runs_model && !part.off_host;
    const std::optional<ExamPart> known = remembered ? cache.find(std::string(part.name)) : std::nullopt;
    ExamPart found =
        known ? *known : ExamPart{.name = std::string(part.name), .verdicts = look(part, run, options)};
    for (base::Verdict& one : found.verdicts) {
      one.part = found.name;
      name_options_of(run.plan, one);
      drop_what_is_set(run.plan, one);
    }
    found.seconds = seconds_since(begin);
    const bool whole = std::none_of(found.verdicts.begin(), found.verdicts.end(), is_failed_attempt);
    if (remembered && !known && whole) cache.add(found);
    out.parts.push_back(std::move(found));
    if (on_part) on_part(out.parts.back());
  }
  base::end_parts();
  if (has_parts_only(run)) run.adapter->release_gradient();
  if (!out.failed()) cache.write();
  out.seconds = seconds_since(start);
  return out;
}

}  // namespace hone::doctor
