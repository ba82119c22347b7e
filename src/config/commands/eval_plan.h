// hone eval: a server of the model for as long as lm-eval asks it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/commands/tool_plans.h"

namespace hone::config {

struct EvalPlan {
  ServePlan serve;                 // on a free port of 127.0.0.1
  std::vector<std::string> tasks;  // of lm-eval; never empty
  std::string output;              // folder; empty: the run's, where the model is a run's, or `evaluation`
  std::int64_t num_fewshot = -1;   // -1: as each task says
  std::int64_t limit = 0;          // rows of each task; 0: all
  std::int64_t batch_size = 8;     // prompts of a request
  bool apply_chat_template = false;
  std::string include_path;  // folder of more tasks
  std::string python;        // empty: base/process/active_python.h

  bool operator==(const EvalPlan&) const = default;
};

const Schema& eval_schema();
// UserError for what hone can see before the model is read.
EvalPlan parse_eval(const std::vector<std::string>& arguments);

}  // namespace hone::config
