// What tools answered, as it came: a run that was killed while it sampled draws the same calls again, and takes their results from
// here instead of calling a second time. Lines of JSON in output_dir/.hone-tools-RANK.jsonl, one a result, each handed to the system
// before the model reads it, so that they outlive the process. Results of batches that no run makes again are taken out with a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "base/files/appended_file.h"
#include "base/files/file.h"
#include "train/batches/rollout_batch.h"

namespace hone::train {

// Which call: `index` counts those of a completion.
struct CallPlace {
  std::uint64_t generation = 0, prompt = 0, sample = 0, index = 0;
  auto operator<=>(const CallPlace&) const = default;
};

// A run's files.
struct JournalPlace {
  base::fs::path output_dir;
  int rank = 0, ranks = 1;
  bool resumes = false;
};

class ToolJournal {
 public:
  // A run that resumes finds the results of batches from `first_generation` on that earlier starts wrote, on any rank. One that does
  // not takes this rank's file away, and the first rank those of ranks that it does not have: they belong to another run. UserError when a file
  // cannot be read or written. A last line that a crash has cut is cut off.
  ToolJournal(const JournalPlace& place, std::uint64_t first_generation);

  // The result of this call, with this name and these arguments; nothing: it is not known.
  std::optional<ToolCall> find(const CallPlace& place, const ToolCall& call) const;
  void write(const CallPlace& place, const ToolCall& call);
  void forget_before(std::uint64_t generation);  // what is found, not the file
  // Takes results of earlier batches out of the file; where storage does not let it they stay until the next time.
  void trim(std::uint64_t generation);

 private:
  base::fs::path path_;
  std::optional<base::AppendedFile> file_;
  std::map<CallPlace, ToolCall> known_;
};

// What another run, or one that somebody has taken back to an earlier checkpoint, left in its folder: tools are called again.
void remove_journals(const base::fs::path& output_dir);

}  // namespace hone::train
