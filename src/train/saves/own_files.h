// These functions decide what in output_dir is hone's own. Names say little: metrics.jsonl, tokenizer.json or
// checkpoint-1 may be anybody's, so a run writes over, moves or removes only what it can prove to be of an
// earlier run:
//
//   hone_files.json  at the top: a run of hone began here when none of its names was taken. It lists the finished result's files
//                    with size and checksum (input_files.h); one that was changed since is not hone's anymore.
//   hone_state.json  in a checkpoint: the names of its files
//   plan.yaml        with hone's first line, where there is no hone_files.json: a folder of an older hone
//   hone-*.json      that name hone's formats: these files themselves; of a run that goes on, or found a fault
//                    (hone-running.json, hone-fault.json), the records of the run too, and nothing of a result
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "config/plan.h"

namespace hone::train {

// Returns whether a run with these options writes an entry of this name at the top of its folder, or moves or
// removes it.
bool is_written(const std::string& name, const config::Plan& plan);

// What hone_files.json says of the folder, or plan.yaml or a marker, and what lies there.
struct OwnFiles {
  bool known = false;                        // a run of hone began here
  base::Json result = base::Json::object();  // its finished result: name -> [bytes, checksum]
};
OwnFiles own_files(const base::fs::path& output_dir);

// The text of hone_files.json.
std::string own_files_text(const base::Json& result);
// The files directly in `folder`, for OwnFiles::result.
base::Json prints_of_files(const base::fs::path& folder);

// Entries that the run would write over, move or remove and that are not provably hone's: "config.json",
// "checkpoint-1/notes.txt". `resuming`: in this folder, whose checkpoints are found and checked elsewhere.
std::vector<std::string> foreign_files(const base::fs::path& output_dir, const config::Plan& plan,
                                       bool resuming);
// UserError when there are any.
void require_own_files(const base::fs::path& output_dir, const config::Plan& plan, bool resuming);

// What lies in a checkpoint's folder and is not in its hone_state.json; all, where that file is not there.
std::vector<std::string> foreign_in_checkpoint(const base::fs::path& checkpoint);

// Removes the files of `before` (OwnFiles::result) that `now` does not have and that are still as hone wrote
// them.
void remove_replaced(const base::fs::path& output_dir, const base::Json& before, const base::Json& now);

}  // namespace hone::train
