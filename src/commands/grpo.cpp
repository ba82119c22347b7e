// hone grpo, hone rloo: policy gradients with native rollouts.
#include "train/grpo.h"

#include <unistd.h>

#include <iostream>

#include "commands/commands.h"
#include "commands/run_signals.h"
#include "config/parse.h"
#include "report/run_report.h"

namespace hone::commands {

namespace {

int run(config::Method method, const std::vector<std::string>& arguments) {
  const config::Plan plan = config::parse_run(method, arguments);
  const std::atomic<bool>& stop_requested = watch_stop_signals();
  report::RunReport report(std::cout, report::terminal_of(STDOUT_FILENO), plan.tensorboard,
                           {.table = plan.policy.log_completions,
                            .most = plan.policy.num_completions_to_print,
                            .unique_prompts = plan.policy.log_unique_prompts});
  const train::LoopResult result = train::run_policy(plan, report, stop_requested);
  return result.interrupted ? kInterrupted : 0;
}

}  // namespace

int grpo(const std::vector<std::string>& arguments) {
  return run(config::Method::kGrpo, arguments);
}

int rloo(const std::vector<std::string>& arguments) {
  return run(config::Method::kRloo, arguments);
}

}  // namespace hone::commands
