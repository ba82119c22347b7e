// The plans of hone doctor, hone check, hone plan and hone faults. A run's own options are kept unparsed, so that the doctor can
// report what is wrong with them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/option_table.h"

namespace hone::config {

struct DoctorPlan {
  Method method = Method::kSft;        // from the command line, else inferred from the options (method_of.h)
  std::string config;                  // the run's YAML; empty: all options are on the command line
  std::vector<std::string> arguments;  // the run's arguments, --config among them: for parse_run
  std::string as, data, dataset_info,
      write;  // of another trainer's file (config/others/other_plan.h); empty: not given
  bool deep = false, strict = false, json = false, fix = false, verbose = false;
  bool run = false, online = false;           // execute a script until its train(), and with the network
  double run_limit = 600;                     // seconds that it has until then
  std::string keep;                           // where its options and rows stay; empty: nowhere
  std::vector<std::string> script_arguments;  // behind --
  std::string script;                         // that was executed: its run is in config

  const std::string& shown() const { return script.empty() ? config : script; }

  bool operator==(const DoctorPlan&) const = default;
};

// hone doctor [METHOD] [run.yaml] [--deep] [--strict] [--json] [--fix] [-v] [--option value ...]
// hone doctor|check|plan SCRIPT --run [--online] [--run_limit SECONDS] [--keep FOLDER] [-- ARGUMENTS OF THE SCRIPT]
// UserError for an unknown method, a file that cannot be read, and --fix without a file.
DoctorPlan parse_doctor(const std::vector<std::string>& arguments);

// hone check [METHOD] [run.yaml] [--fix] [--option value ...], and for another trainer's file [--as TRAINER] [--data ROWS]
// [--dataset_info FILE] [--json] [--write run.yaml]: the same, of the options that it has.
DoctorPlan parse_check(const std::vector<std::string>& arguments);

// hone plan: what a run would need and take on other numbers of ranks. The fields of DoctorPlan name the run.
struct RanksPlan : DoctorPlan {
  std::string nproc = "1,2,4,8", hosts = "1";  // as given
  std::vector<std::int64_t> ranks_per_host, host_counts;
  std::int64_t memory = 0;  // bytes of a host; 0: what is free here
  std::int64_t cores = 0;   // processors of a host; 0: as many as here
  double latency = 50;      // between hosts, microseconds
  double bandwidth = 10;    // of a host, Gbit/s
  double step_seconds = 0;  // of one process on all processors of a host; 0: measured
  std::string measured;     // folder of an earlier run of one process, whose metrics say how fast a step is
  bool keep_batch = false;  // as many rows a step whatever the number of ranks

  bool operator==(const RanksPlan&) const = default;
};

// hone plan [METHOD] run.yaml [--nproc 1,2,4] [--hosts 1,2] [--memory 16GB] [--option value ...]
RanksPlan parse_ranks_plan(const std::vector<std::string>& arguments);

const Schema& plan_schema();

// "1,2,4" -> 1 2 4; "1,2,...,16" doubles: 1 2 4 8 16. UserError naming `where` for anything else.
std::vector<std::int64_t> counts_of(const std::string& text, const std::string& where);

struct FaultsPlan {
  std::string code;  // empty: all
  bool json = false;
  bool markdown = false;
  std::string shown;  // with markdown: a file of test results (report/core_only/fault_pages.h)
};

// hone faults [CODE] [--json] [--markdown [--shown FILE]]
FaultsPlan parse_faults(const std::vector<std::string>& arguments);

}  // namespace hone::config
