#include "commands/run_signals.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string_view>

#include "base/stop_request.h"
#include "doctor/running_file.h"

namespace hone::commands {

namespace {

std::atomic<bool> stop_was_asked = false;

// The first Ctrl-C, SIGTERM or SIGHUP (the terminal went away) asks the loop to finish its step and save; the
// second one kills, as by default, and leaves word of it for `hone explain`. A step may take a minute, so it is
// answered here, with what a signal handler may call.
void on_stop_signal(int signal) {
  constexpr std::string_view kAnswer = "\nstopping  when this step is done and saved; once more: at once\n";
  const int kept = errno;
  if (stop_was_asked.exchange(true)) {
    doctor::note_ending_signal(signal);
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // when this handler has returned
    return;
  }
  base::stop_request = true;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kAnswer.data(), kAnswer.size());
  errno = kept;
}

}  // namespace

void request_stop() {
  stop_was_asked = true;
  base::stop_request = true;
}

const std::atomic<bool>& watch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = &on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup's choice stays
  // A pipe that was closed must not kill a run of hours; what could not be said is an error at the end.
  std::signal(SIGPIPE, SIG_IGN);
  return stop_was_asked;
}

}  // namespace hone::commands
