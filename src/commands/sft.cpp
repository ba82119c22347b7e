// hone sft: supervised fine-tuning.
#include "train/sft.h"

#include <unistd.h>

#include <iostream>

#include "commands/commands.h"
#include "commands/run_signals.h"
#include "config/parse.h"
#include "report/run_report.h"

namespace hone::commands {

int sft(const std::vector<std::string>& arguments) {
  const config::Plan plan = config::parse_run(config::Method::kSft, arguments);
  const std::atomic<bool>& stop_requested = watch_stop_signals();
  const bool interactive = isatty(STDOUT_FILENO) == 1;
  report::RunReport report(std::cout, {.interactive = interactive, .colour = interactive}, plan.tensorboard);
  const train::LoopResult result = train::run_sft(plan, report, stop_requested);
  return result.interrupted ? kInterrupted : 0;
}

}  // namespace hone::commands
