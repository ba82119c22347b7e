#include "config/commands/bug_report_plan.h"

#include "base/error.h"
#include "base/files/file.h"
#include "config/reading/first_word.h"
#include "config/reading/user_paths.h"
#include "config/settings.h"

namespace hone::config {

BugReportPlan parse_bug_report(const std::vector<std::string>& arguments) {
  const Settings settings = read_first_word(bug_report_schema(), arguments, "--run");
  BugReportPlan plan;
  settings.fill(plan);
  if (!plan.run.empty()) plan.run = user_path(plan.run, "option run");
  plan.output = user_path(plan.output, "option output");
  if (!plan.run.empty() && !base::fs::is_directory(plan.run)) {
    throw base::UserError({.where = "option run",
                           .expected = "the output_dir of a run",
                           .found = plan.run + ", which is not a folder",
                           .fix = "name the folder of the run, or leave it out for the machine alone"});
  }
  if (plan.output.empty() || base::fs::exists(plan.output)) {
    throw base::UserError({.where = "option output",
                           .expected = "a file that is not there yet",
                           .found = plan.output.empty() ? "nothing" : plan.output + ", which is there",
                           .fix = "remove it, or name another with --output"});
  }
  return plan;
}

}  // namespace hone::config
