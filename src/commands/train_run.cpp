#include "commands/train_run.h"

#include <atomic>
#include <memory>

#include "commands/own_places.h"
#include "commands/run_signals.h"
#include "doctor/examiner.h"
#include "train/open_run.h"

namespace hone::commands {

namespace {
constexpr int kPaused = 2;
}

int train_run(const config::Plan& plan, train::RunListener& listener) {
  const std::atomic<bool>& stop_requested = watch_stop_signals();
  const std::unique_ptr<train::OpenedRun> run = train::open_run(plan, listener);
  doctor::Examiner examiner({.program = own_program(), .cache_dir = cache_folder()}, listener);
  doctor::Guards guards;
  if (!plan.skip_doctor) guards.add(examiner);
  const train::LoopResult result = train::begin_run(*run, listener, stop_requested, &guards);
  if (result.paused) return kPaused;
  return result.interrupted ? kInterrupted : 0;
}

}  // namespace hone::commands
