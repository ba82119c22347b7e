// metrics.jsonl: one JSON object a record, in TRL's names, with step and epoch; readable during the run.
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>

#include "base/file.h"
#include "train/step_facts.h"

namespace hone::report {

class MetricsFile {
 public:
  // Opens `path` for appending; lines of steps after `first_step` (a killed run's) are dropped, and with
  // them a torn last line and any that has no number as its step. first_step 0 starts a new file. The
  // record of an earlier run's end goes with the first record of this one: a run that was killed between that
  // line and its last file ends once. `evaluates_again`: an evaluation of `first_step` is made again, so a
  // record of one goes too.
  MetricsFile(const base::fs::path& path, std::int64_t first_step, bool evaluates_again = false);
  void write(const train::LogRecord& record);  // one line, flushed

 private:
  base::fs::path path_;
  std::ofstream file_;
  std::optional<std::uintmax_t> earlier_end_;  // where its line begins, while it stands
};

}  // namespace hone::report
