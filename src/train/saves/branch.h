// A run that is resumed from an earlier checkpoint abandons the later ones. They are moved to another folder,
// so that the newest checkpoint of output_dir is always that of the current run:
//
//   out/checkpoint-10, out/checkpoint-20   --resume_from_checkpoint out/checkpoint-10
//   out/checkpoint-10, out/abandoned-1-after-10/checkpoint-20
//
// with a copy of metrics.jsonl and the completions of the steps after 10. A run can be resumed from an
// abandoned checkpoint: it is moved back, with the metrics and completions of its run, and what is newer than
// the step at which its run was left is moved away in turn.
//
// The move is recorded in hone-branch.json before the first rename and is complete when that file is removed.
// If the process is killed in between, the next run there completes the move first (recover_run_folder).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"

namespace hone::train {

struct Branch {
  std::int64_t after = 0;           // what is newer is moved away
  std::string to;                   // the target folder in output_dir
  std::vector<std::int64_t> steps;  // of the checkpoints to be moved
  // "abandoned-1-after-10/checkpoint-20", which is moved back; empty: none.
  std::string back;
};

// The moves that are needed before a run continues in `output_dir` from checkpoint `folder` of step `step`;
// empty: none. `folder` may be an abandoned one.
std::optional<Branch> plan_branch(const base::fs::path& output_dir, const base::fs::path& folder,
                                  std::int64_t step);

// One line for the start page.
std::string describe(const Branch& branch);

// Moves the checkpoints. UserError when a rename fails; the next start then completes the move.
void make_branch(const base::fs::path& output_dir, const Branch& branch);

// Completes an interrupted move, if there is one. UserError when hone-branch.json was not written by hone.
void finish_branch(const base::fs::path& output_dir);

}  // namespace hone::train
