#include "commands/process/run_signals.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/process/stop_request.h"
#include "doctor/running_file.h"

namespace hone::commands {

namespace {

// A launcher and the terminal, or Slurm's step and batch script, may both send one: it is the same request.
constexpr std::int64_t kSameRequest = 2'000'000'000;  // nanoseconds

std::atomic<bool> stop_was_asked = false;
std::atomic<std::int64_t> stop_asked_at = 0, step_grace = 0;  // nanoseconds; of the steady clock

void answer_stop(std::string_view line) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

// Nothing when it was asked already. What a signal handler may call.
bool ask_to_stop(std::int64_t now) {
  std::int64_t never = 0;
  if (!stop_asked_at.compare_exchange_strong(never, now)) return false;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::int64_t wait = step_grace;
  base::stop_deadline = wait < kMost - now ? now + wait : kMost;
  base::stop_request = true;
  stop_was_asked = true;
  return true;
}

// A step may take minutes, so it is answered here.
void on_stop_signal(int signal) {
  const int kept = errno;
  const std::int64_t now = base::steady_nanoseconds();
  const bool counts = signal != SIGUSR1 && signal != SIGUSR2;  // a warning may be repeated
  if (ask_to_stop(now)) {
    answer_stop("\nstopping  when this step is done and saved; once more: at once\n");
  } else if (counts && now - stop_asked_at >= kSameRequest) {
    if (signal == SIGINT) {
      doctor::note_ending_signal(signal);
      std::signal(signal, SIG_DFL);
      std::raise(signal);  // when this handler has returned
    } else if (base::stop_deadline > now) {
      base::stop_deadline = now;
      answer_stop("\nstopping  without this step; those before it are saved\n");
    }
  }
  errno = kept;
}

}  // namespace

void request_stop() {
  ask_to_stop(base::steady_nanoseconds());
}

const std::atomic<bool>& watch_stop_signals(double seconds) {
  constexpr double kMost = 1e9;  // seconds: 30 years
  step_grace = static_cast<std::int64_t>(std::min(seconds, kMost) * 1e9);
  struct sigaction action = {};
  action.sa_handler = &on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2}) sigaction(signal, &action, nullptr);
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup's choice stays
  // A pipe that was closed must not kill a run of hours; what could not be said is an error at the end.
  std::signal(SIGPIPE, SIG_IGN);
  return stop_was_asked;
}

}  // namespace hone::commands
