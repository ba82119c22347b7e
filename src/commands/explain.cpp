// hone explain: why a run ended.
#include <iostream>

#include "commands/commands.h"
#include "config/commands/explain_plan.h"
#include "doctor/fault_report.h"
#include "report/terminal/terminal.h"
#include "train/saves/run_folder.h"

namespace hone::commands {

namespace {

// A run that left no report: ended as it should, was stopped by Ctrl-C, or never began.
std::string without_report(const base::fs::path& folder) {
  const bool model = train::has_model_weights(folder) && base::fs::exists(folder / train::kTrainerStateFile);
  if (model || base::fs::exists(folder / train::kAdapterWeightsFile)) {
    return "done      the run in " + folder.string() + " has finished; there is nothing to explain\n";
  }
  const auto steps = train::checkpoint_steps(folder);
  if (!steps.empty()) {
    return "stopped   the run in " + folder.string() + " was stopped after step " +
           std::to_string(steps.back()) +
           " and left no report: Ctrl-C, or an error that was shown then\n"
           "continue  the same command with --resume_from_checkpoint true\n";
  }
  return "nothing   there are no files of a hone run in " + folder.string() + "\n";
}

}  // namespace

int explain(const std::vector<std::string>& arguments) {
  const base::fs::path asked = config::parse_explain(arguments).report;
  const base::fs::path report = doctor::find_report(asked);
  std::cout << report::visible_controls(report.empty() ? without_report(asked) : doctor::explain(report));
  return 0;
}

}  // namespace hone::commands
