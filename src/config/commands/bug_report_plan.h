// The plan of hone bug-report.
#pragma once

#include <string>
#include <vector>

#include "config/option_table.h"

namespace hone::config {

struct BugReportPlan {
  std::string run;                            // a run's output_dir, which exists; empty: the machine alone
  std::string output = "hone-bug-report.md";  // a file that is not there yet

  bool operator==(const BugReportPlan&) const = default;
};

// hone bug-report [RUN] [--output FILE]. UserError for a folder that is not there, and for a file that is.
BugReportPlan parse_bug_report(const std::vector<std::string>& arguments);

const Schema& bug_report_schema();

}  // namespace hone::config
