// hone explain REPORT|FOLDER: a word and no options.
#pragma once

#include <string>
#include <vector>

namespace hone::config {

struct ExplainPlan {
  std::string report;  // a report of hone's, or a run's output_dir; it exists

  bool operator==(const ExplainPlan&) const = default;
};

// `arguments` are the words after the command. Throws UserError.
ExplainPlan parse_explain(const std::vector<std::string>& arguments);

// What `hone explain --help` prints.
std::string explain_help();

}  // namespace hone::config
