// A run that is resumed from an earlier checkpoint leaves the run that wrote the later ones. Those are moved
// aside, so that the newest checkpoint of output_dir is always of the run that goes on:
//
//   out/checkpoint-10, out/checkpoint-20   --resume_from_checkpoint out/checkpoint-10
//   out/checkpoint-10, out/abandoned-1-after-10/checkpoint-20
//
// with metrics.jsonl as it was and the completions of the steps after 10. A checkpoint that was moved aside
// can be resumed from where it lies: it comes back, with the metrics and completions of its run, and what is
// newer than the step at which its run was left is moved aside in turn.
//
// The move is announced in hone-branch.json before the first rename and ends when that file is removed: a
// kill in between leaves a move that the next start of a run there ends first (recover_run_folder).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace hone::train {

struct Branch {
  std::int64_t after = 0;           // what is newer is moved aside
  std::string to;                   // the folder in output_dir that takes it
  std::vector<std::int64_t> steps;  // of the checkpoints that move
  // "abandoned-1-after-10/checkpoint-20", which comes back; empty: none does.
  std::string back;
};

// What has to move before a run goes on in `output_dir` from its checkpoint `folder` of step `step`; empty:
// nothing. `folder` may be one that was moved aside.
std::optional<Branch> plan_branch(const base::fs::path& output_dir, const base::fs::path& folder,
                                  std::int64_t step);

// One line for the start page.
std::string describe(const Branch& branch);

// Moves. UserError when a rename fails; the next start ends it then.
void make_branch(const base::fs::path& output_dir, const Branch& branch);

// Ends a move that was cut short; nothing where none was. UserError when hone-branch.json is not hone's.
void finish_branch(const base::fs::path& output_dir);

}  // namespace hone::train
