#include "config/commands/explain_plan.h"

#include "base/error.h"
#include "base/files/file.h"
#include "config/reading/user_paths.h"

namespace hone::config {

ExplainPlan parse_explain(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1 || arguments[0].empty() || arguments[0].starts_with("-")) {
    throw base::UserError({.where = "hone explain",
                           .expected = "a report, or a run's output_dir",
                           .found = arguments.empty() ? "none" : "'" + arguments.back() + "'",
                           .fix = "write hone explain out/hone-crash-123.json, or hone explain out"});
  }
  const std::string report = user_path(arguments[0], "hone explain");
  if (!base::fs::exists(report)) {
    throw base::UserError({.where = "hone explain",
                           .expected = "a report of hone, or a run's output_dir",
                           .found = arguments[0] + ", which is not there",
                           .fix = "give the file that the crash message named, or the run's output_dir"});
  }
  return {.report = report};
}

}  // namespace hone::config
