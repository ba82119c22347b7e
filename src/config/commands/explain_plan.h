// hone explain REPORT|FOLDER: one argument and no options.
#pragma once

#include <string>
#include <vector>

namespace hone::config {

struct ExplainPlan {
  std::string report;  // a report of hone, or a run's output_dir; it exists

  bool operator==(const ExplainPlan&) const = default;
};

// `arguments` are the words after the command. Throws UserError.
ExplainPlan parse_explain(const std::vector<std::string>& arguments);

}  // namespace hone::config
