// metrics.jsonl: one JSON object per record, with TRL's names, with step and epoch; readable during the run. What takes
// another time in each run is in an object `performance` (LogRecord::performance).
#pragma once

#include <cstdint>
#include <optional>

#include "base/files/appended_file.h"
#include "base/files/file.h"
#include "base/json.h"
#include "train/facts/step_facts.h"

namespace hone::report {

// A line of metrics.jsonl without `performance`. What is no number is null.
base::Json metrics_line(const train::LogRecord& record);

class MetricsFile {
 public:
  // Opens `path` for appending; lines of steps after `first_step` (a killed run's) are dropped, and so are an
  // incomplete last line and lines whose step is not a number. first_step 0 starts a new file. The final
  // record of an earlier run is removed with the first record of this one, so that a run that was killed just
  // before its end has only one. `evaluates_again`: the evaluation of `first_step` is repeated, so its record
  // is dropped too.
  MetricsFile(const base::fs::path& path, std::int64_t first_step, bool evaluates_again = false);
  void write(const train::LogRecord& record);  // one line, flushed

 private:
  std::optional<base::AppendedFile> file_;
  std::optional<std::uintmax_t> earlier_end_;  // offset of its line, while it is there
};

}  // namespace hone::report
