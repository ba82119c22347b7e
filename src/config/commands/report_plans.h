// The plans of hone report and hone compare, which read folders of runs; and a run's options beside their defaults.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/option_table.h"

namespace hone::config {

// hone report RUN...: a page of a run, or of several beside each other.
struct ReportPlan {
  std::vector<std::string> runs;  // folders with metrics.jsonl; at least one
  std::string output;             // empty: report.html in the run's folder, or beside the runs
  bool serve = false;             // instead of a file: on 127.0.0.1, until Ctrl-C
  std::int64_t port = 0;          // of serve; 0: any that is free
  std::vector<std::string> notes;

  bool operator==(const ReportPlan&) const = default;
};

// hone compare RUN RUN: the difference of two runs in the terminal.
struct CompareRunsPlan {
  std::string first, second;
  std::vector<std::string> notes;

  bool operator==(const CompareRunsPlan&) const = default;
};

const Schema& report_schema();
const Schema& compare_schema();

// `arguments`: the words after the command, of which the first are the runs. UserError for a folder without metrics; of several
// given to `report` such a folder is left out, with a note.
ReportPlan parse_report(const std::vector<std::string>& arguments);
CompareRunsPlan parse_compare(const std::vector<std::string>& arguments);

// The options of a plan.yaml in the order of its method's table, values as YAML.
struct OptionRow {
  std::string name, group, value, standard;  // standard: the method's default
  bool differs = false;                      // from it
};
struct RunOptions {
  std::string method;  // "grpo"; empty: there is no plan.yaml, or it cannot be read
  std::vector<OptionRow> rows;
  std::string mistake;  // why it cannot be read
};
RunOptions run_options_of(const std::string& plan_yaml);
RunOptions read_run_options(const std::string& run);  // of RUN/plan.yaml

}  // namespace hone::config
