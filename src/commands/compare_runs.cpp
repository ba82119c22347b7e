// hone compare: how two runs differ.
#include <unistd.h>

#include <iostream>

#include "commands/commands.h"
#include "commands/page_runs.h"
#include "config/commands/report_plans.h"
#include "report/page/compare_text.h"
#include "report/terminal/terminal.h"

namespace hone::commands {

int compare_runs(const std::vector<std::string>& arguments) {
  const config::CompareRunsPlan plan = config::parse_compare(arguments);
  print_notes(plan.notes);
  PageFolder first(plan.first), second(plan.second);
  std::cout << report::compare_text(first.read(), second.read(), report::terminal_of(STDOUT_FILENO));
  return 0;
}

}  // namespace hone::commands
