// hone sft: supervised fine-tuning.
#include <unistd.h>

#include <iostream>

#include "commands/commands.h"
#include "commands/train_run.h"
#include "config/parse.h"
#include "report/run_report.h"

namespace hone::commands {

int sft(const std::vector<std::string>& arguments) {
  const config::Plan plan = config::parse_run(config::Method::kSft, arguments);
  const bool interactive = isatty(STDOUT_FILENO) == 1;
  report::RunReport report(std::cout, {.interactive = interactive, .colour = interactive}, plan.tensorboard);
  return train_run(plan, report);
}

}  // namespace hone::commands
