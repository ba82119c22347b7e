// hone online-dpo: preference optimisation on pairs that the model samples itself.
#include <unistd.h>

#include <iostream>

#include "commands/commands.h"
#include "commands/train_run.h"
#include "config/parse.h"
#include "report/run_report.h"

namespace hone::commands {

int online_dpo(const std::vector<std::string>& arguments) {
  const config::Plan plan = config::parse_run(config::Method::kOnlineDpo, arguments);
  report::RunReport report(std::cout, report::terminal_of(STDOUT_FILENO), plan.tensorboard,
                           {.table = plan.policy.log_completions,
                            .most = plan.policy.num_completions_to_print,
                            .unique_prompts = plan.policy.log_unique_prompts});
  return train_run(plan, report);
}

}  // namespace hone::commands
