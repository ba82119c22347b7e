// hone kto: preference optimisation on marked completions.
#include <unistd.h>

#include <iostream>

#include "commands/commands.h"
#include "commands/train_run.h"
#include "config/parse.h"
#include "report/run_report.h"

namespace hone::commands {

int kto(const std::vector<std::string>& arguments) {
  const config::Plan plan = config::parse_run(config::Method::kKto, arguments);
  report::RunReport report(std::cout, report::terminal_of(STDOUT_FILENO), plan.tensorboard);
  return train_run(plan, report);
}

}  // namespace hone::commands
