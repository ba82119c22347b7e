// Reports of runs that ended early, in output_dir: hone-fault.json for a pause or a stop by the watch,
// hone-crash-PID.json for a signal (crash_text.h); and their text for `hone explain`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "base/verdict.h"

namespace hone::doctor {

struct FaultReport {
  std::string kind;  // pause: it can be resumed; stop
  std::int64_t step = 0, total_steps = 0;
  std::int64_t checkpoint = -1;          // step of the newest; -1: none
  std::int64_t healthy_checkpoint = -1;  // of the last one before the fault was suspected
  std::vector<base::Verdict> verdicts;   // the failures
};

// Errors, such as a full disk, are ignored.
void write_fault_report(const base::fs::path& output_dir, const FaultReport& report);

base::fs::path crash_report_path(const base::fs::path& output_dir, std::int64_t pid);

// The newest file that explains why a run in `folder` ended: a crash report, hone-fault.json, or
// hone-running.json; empty when there is none. `folder` may be a report itself.
base::fs::path find_report(const base::fs::path& folder);

// Evidence of a verdict may quote completions and rows of the data.
enum class Evidence { kTold, kLeftOut };

// A report as text, with newlines: what, where, what it is not, the last healthy checkpoint, how to continue.
// UserError when the file is not a report.
std::string explain(const base::fs::path& report, Evidence evidence = Evidence::kTold);

}  // namespace hone::doctor
