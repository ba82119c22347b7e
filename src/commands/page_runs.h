// A run's folder as the page shows it: metrics, completions, options, and what became of its process.
#pragma once

#include <string>
#include <vector>

#include "config/commands/report_plans.h"
#include "report/page/page_data.h"

namespace hone::commands {

// The page's rows of a run's options.
std::vector<report::PagePlanRow> page_plan(const config::RunOptions& options);

class PageFolder {
 public:
  explicit PageFolder(std::string folder, const report::CompletionsLimits& limits = {});

  // What is there now; reads again what has changed. Valid until the next call. UserError without metrics.
  const report::PageRun& read();

 private:
  std::string folder_;
  report::MetricsReader metrics_;
  report::CompletionsReader completions_;
  report::PageRun run_;
};

}  // namespace hone::commands
