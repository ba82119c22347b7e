// output_dir/samples.jsonl: completions of the run's fixed prompts (sample_prompts), one a line, those of a step beside each other:
//   {"step": 20, "index": 0, "prompt": ..., "asked": ..., "completion": ..., "truncated": false, "tokens": 12, "exact_match": 1.0}
// "index" is the prompt's, from 0; "asked" the last turn of a conversation's user, absent where the prompt is plain text. Rewards are
// there where an evaluation of the same step has scored the same rows.
#pragma once

#include <cstdint>
#include <optional>

#include "base/files/appended_file.h"
#include "base/files/file.h"
#include "train/facts/step_facts.h"

namespace hone::report {

class SamplesFile {
 public:
  // Lines of steps after `first_step` (a killed run's) are dropped, and so are an incomplete last line and what is no sample;
  // `evaluates_again`: those of `first_step` too. first_step 0: an earlier run's file goes. The file is created with the first sample.
  SamplesFile(base::fs::path path, std::int64_t first_step, bool evaluates_again = false);
  // A step's lines in one write, flushed. UserError when the disk is full.
  void write(const train::SampleFacts& facts);
  // The samples of the lowest step in the file; empty before the first write of a new run.
  const std::optional<train::SampleFacts>& first() const { return first_; }

 private:
  base::fs::path path_;
  std::optional<base::AppendedFile> file_;
  std::optional<train::SampleFacts> first_;
};

}  // namespace hone::report
