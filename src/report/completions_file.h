// output_dir/completions/completions_<step>.jsonl: every completion of a run with its rewards, one file per
// generation batch, named after the step that first trains on it. Columns as TRL's tables: step, prompt,
// completion, one a reward (null for None), the columns of log_extra, advantage; and truncated.
// The completion of a run with tools is the list of its messages, as TRL writes it, and the columns "calls" and "spans" of
// CompletionFacts follow it.
#pragma once

#include <cstdint>
#include <string>

#include "base/files/file.h"
#include "train/facts/step_facts.h"

namespace hone::report {

class CompletionsFiles {
 public:
  // Files of steps after `first_step` (a killed run's, or with 0 an earlier run's) are removed, since these
  // steps are repeated. The folder is created with the first file.
  CompletionsFiles(const base::fs::path& output_dir, std::int64_t first_step);
  // Writes the file atomically; an older one of the same step is replaced, and several batches of one step
  // (gradient accumulation over more than one) are appended. UserError when the disk is full.
  void write(const train::RolloutFacts& facts);

 private:
  base::fs::path folder_;
  std::int64_t step_ = 0;  // of the newest file, and its contents
  std::string text_;
};

}  // namespace hone::report
