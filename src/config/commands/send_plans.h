// The plans of hone log and hone push: what a run's folder says, and what the command line sets instead.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "config/option_table.h"
#include "config/plan.h"

namespace hone::config {

// hone log RUN --to NAME: sends the metrics of a run to a logger.
struct LogPlan : LoggerPlan {
  std::string run;              // output_dir of a run, with its metrics.jsonl
  std::string to;               // a package of finish_report.h's kLoggers
  std::string python;           // empty: base/process/active_python.h
  bool log_completions = true;  // completions too, where the run has them
  bool log_unique_prompts = false;
  base::Json config;  // the run's options, by plan.yaml; empty object without one
};

// hone push RUN: uploads a run's adapter.
struct PushPlan : HubPlan {
  std::string run;     // a folder with adapter_config.json: output_dir of a run, or a checkpoint
  std::string python;  // empty: base/process/active_python.h
  std::string method;  // "sft"; empty: nobody says so
  base::Json config;   // as above
};

const Schema& log_schema();
const Schema& push_schema();

// `arguments`: the words after the command, of which the first is RUN. Options that are not set are those of RUN/plan.yaml. UserError
// for a folder that is no run's, and for a logger that hone does not send to.
LogPlan parse_log(const std::vector<std::string>& arguments);
PushPlan parse_push(const std::vector<std::string>& arguments);

// The options of `plan_yaml`, which write_plan has written, as JSON values by name; what is no option any more is left out.
base::Json plan_values(const std::string& plan_yaml);

}  // namespace hone::config
