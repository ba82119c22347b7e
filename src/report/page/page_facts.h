// hone-page.json in output_dir: what the page tells of a run and no other file of it has, which is the data and the example of
// its start page, the doctor's verdicts, and how it ended.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "base/verdict.h"
#include "train/facts/step_facts.h"

namespace hone::report {

// How a run ended: a process that is killed cannot say so, and leaves kRunning.
enum class RunEnd { kRunning, kFinished, kStopped, kFailed, kKilled };
std::string_view end_name(RunEnd end);  // "running", "finished", ...

struct PageFacts {
  RunEnd end = RunEnd::kRunning;
  std::int64_t started = 0;              // seconds since 1970, of the last process
  std::vector<std::int64_t> resumed_at;  // steps
  std::int64_t total_steps = 0;
  std::vector<std::pair<std::string, std::string>> start;     // "data", "8,000 rows, ..."
  std::vector<train::ColoredPiece> example;                   // cut
  std::vector<std::pair<std::int64_t, base::Json>> verdicts;  // step, verdict_json

  // Takes over what an earlier process left: verdicts up to `first_step`, and where it was resumed.
  void continue_from(const PageFacts& earlier, std::int64_t first_step);
};

// Returns the facts of a run that begins; `now`: seconds since 1970.
PageFacts facts_of_start(const train::StartFacts& start, std::int64_t now);

base::Json facts_json(const PageFacts& facts);
// What is missing or of another kind is left as it is by default: a page can be made of any run's folder.
PageFacts facts_of_json(const base::Json& json);

PageFacts read_page_facts(const base::fs::path& output_dir);  // empty facts where there is no such file
void write_page_facts(const base::fs::path& output_dir, const PageFacts& facts);

}  // namespace hone::report
