// A page holds this, as JSON text: the runs with their series, completions, verdicts and options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/page/page_facts.h"
#include "report/page/read_completions.h"
#include "report/page/read_metrics.h"
#include "report/page/read_samples.h"

namespace hone::report {

// An option of a run's plan.yaml, with its values as YAML.
struct PagePlanRow {
  std::string name, group, value, standard;  // standard: the method's default
  bool differs = false;                      // from it
};

struct PageRun {
  std::string name;                // its folder, as the user wrote it
  std::string method;              // "grpo"; empty: nobody says so
  const RunMetrics* metrics = {};  // never null
  CompletionsSample completions;
  base::Json samples = {};  // read_samples.h
  PageFacts facts;
  std::vector<PagePlanRow> plan;
  std::vector<std::string> notes;  // what became of it beside facts.end, and what could not be read
};

struct PageTimes {
  std::int64_t written = 0;  // seconds since 1970
  int refresh_seconds = 0;   // how often an open page reads itself again; 0: the runs have ended
};

// Texts of names, options and data are escaped for display (base::printable); numbers have six digits. Of many series each has
// fewer buckets, so that the text stays below about 1.5 MB.
std::string page_data(const std::vector<PageRun>& runs, const PageTimes& times);

}  // namespace hone::report
