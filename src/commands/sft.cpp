// hone sft: supervised fine-tuning.
#include "train/sft.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iostream>
#include <string_view>

#include "commands/commands.h"
#include "config/parse.h"
#include "report/run_report.h"

namespace hone::commands {

namespace {

constexpr int kInterrupted = 130;

std::atomic<bool> stop_requested = false;

// The first Ctrl-C, SIGTERM or SIGHUP (the terminal went away) asks the loop to finish its step and save; the
// second one kills, as by default. A step may take a minute, so it is answered here, with what a signal
// handler may call.
void on_stop_signal(int) {
  constexpr std::string_view kAnswer = "\nstopping  when this step is done and saved; once more: at once\n";
  const int kept = errno;
  stop_requested = true;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kAnswer.data(), kAnswer.size());
  errno = kept;
}

void install_stop_handler() {
  struct sigaction action = {};
  action.sa_handler = &on_stop_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup = {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // nohup's choice stays
  // A pipe that was closed must not kill a run of hours; what could not be said is an error at the end.
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

int sft(const std::vector<std::string>& arguments) {
  const config::Plan plan = config::parse_run(config::Method::kSft, arguments);
  install_stop_handler();
  const bool interactive = isatty(STDOUT_FILENO) == 1;
  report::RunReport report(std::cout, {.interactive = interactive, .colour = interactive}, plan.tensorboard);
  const train::LoopResult result = train::run_sft(plan, report, stop_requested);
  return result.interrupted ? kInterrupted : 0;
}

}  // namespace hone::commands
