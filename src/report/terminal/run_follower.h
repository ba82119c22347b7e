// A RunFollower follows a run beside its report: loggers, uploads. The report tells it the run's events and
// prints what it says.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/verdict.h"
#include "train/facts/step_facts.h"

namespace hone::report {

class RunFollower {
 public:
  using Say = std::function<void(std::string_view line)>;  // a line for the terminal, without its newline

  virtual ~RunFollower() = default;
  virtual void on_start(const train::StartFacts&, const Say&) {}
  // The doctor's: those of the examination come right after on_start.
  virtual void on_verdict(const base::Verdict&, std::int64_t /*step*/) {}
  // When metrics.jsonl has it.
  virtual void on_log(const train::LogRecord&, const Say&) {}
  virtual void on_save(const std::string& /*folder*/, std::int64_t /*step*/, const Say&) {}
  // After every step: what it has to say by now. Never waits.
  virtual void poll(const Say&) {}
  // The run has ended, or was stopped. May wait, for the time that the follower states.
  virtual void on_finish(bool /*interrupted*/, std::int64_t /*step*/, const Say&) {}
};

}  // namespace hone::report
