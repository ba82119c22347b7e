// samples.jsonl for the page: steps at even distances, the first and the newest among them, cut to a size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/files/file.h"
#include "base/json.h"

namespace hone::report {

struct SamplesLimits {
  std::size_t steps = 60;
  std::size_t prompts = 40;     // of a step
  std::size_t bytes = 600'000;  // of all completions together; of one at least 200
  std::size_t prompt_bytes = 1'500;
  std::size_t completion_bytes = 4'000;
};

// {"prompts": [text], "all_steps": number, "all_prompts": number, "skipped": lines that are no samples,
//  "steps": [{"step", "completions": [[prompt, text, truncated, {reward: value}], ...]}]}
// ascending; "prompt" is an index. Null where the run has no samples.
base::Json read_samples(const base::fs::path& path, const SamplesLimits& limits = {});

}  // namespace hone::report
