// The plans of hone doctor and hone faults. A run's own options are kept unparsed, so that the doctor can
// report what is wrong with them.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"

namespace hone::config {

struct DoctorPlan {
  Method method = Method::kSft;        // from the command line, else inferred from the options (method_of.h)
  std::string config;                  // the run's YAML; empty: all options are on the command line
  std::vector<std::string> arguments;  // the run's arguments, --config among them: for parse_run
  bool deep = false, strict = false, json = false, fix = false, verbose = false;

  bool operator==(const DoctorPlan&) const = default;
};

// hone doctor [METHOD] [run.yaml] [--deep] [--strict] [--json] [--fix] [-v] [--option value ...]
// UserError for an unknown method, a file that cannot be read, and --fix without a file.
DoctorPlan parse_doctor(const std::vector<std::string>& arguments);

// hone check [METHOD] [run.yaml] [--fix] [--option value ...]: the same, of the options that it has.
DoctorPlan parse_check(const std::vector<std::string>& arguments);

struct FaultsPlan {
  std::string code;  // empty: all
  bool json = false;
  bool markdown = false;
  std::string shown;  // with markdown: a file of test results (report/fault_pages.h)
};

// hone faults [CODE] [--json] [--markdown [--shown FILE]]
FaultsPlan parse_faults(const std::vector<std::string>& arguments);

}  // namespace hone::config
