// hone log: sends the metrics of a run to a logger.

#include <iostream>

#include "commands/commands.h"
#include "commands/process/run_signals.h"
#include "config/commands/send_plans.h"
#include "config/derived/finish_report.h"
#include "report/loggers.h"

namespace hone::commands {

int log_run(const std::vector<std::string>& arguments) {
  const config::LogPlan plan = config::parse_log(arguments);
  report::LoggerOptions options{.names = {plan.to},
                                .python = plan.python,
                                .variables = config::logger_variables(plan),
                                .settings = config::logger_settings(plan, plan.config)};
  options.settings["tables"] = plan.log_completions;
  options.settings["unique_prompts"] = plan.log_unique_prompts;
  const std::atomic<bool>& stop = watch_stop_signals();
  const report::LoggerResult result = report::send_run(plan.run, options, stop);
  if (!result.run.empty()) std::cout << "logger    " << plan.to << ": " << result.run << '\n';
  std::cout << "sent      " << result.sent << " lines of metrics";
  if (result.known > 0) std::cout << "; it had " << result.known << " of them already";
  std::cout << '\n';
  return 0;
}

}  // namespace hone::commands
