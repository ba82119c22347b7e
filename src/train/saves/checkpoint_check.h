// Checks that a checkpoint is complete: hone_state.json and every file that it names.
//
// hone_state.json ends with a CRC-32C of all bytes before it, and contains size and CRC-32C of the other
// files, so that a change of any bit of a checkpoint is found. The step is in the folder's name, in
// hone_state.json, in the optimizer's metadata and in trainer_state.json, and must be the same in all of
// them. Checkpoints of format 2 have no checksum of hone_state.json itself; all other checks are the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "base/json.h"

namespace hone::train {

// The checkpoint differs from what was saved: a file was changed, truncated or removed. Other UserErrors mean
// that it cannot be read: permissions, or the format of another version.
class CheckpointDamage : public base::UserError {
 public:
  using UserError::UserError;
};

// The text of hone_state.json for `state`, which gets its format and checksum here.
std::string sealed_state(const base::Json& state);

struct CheckedCheckpoint {
  base::Json state;  // of hone_state.json
  std::int64_t step = 0;
  bool sealed = true;  // false: from an older hone, without a checksum
};
CheckedCheckpoint check_checkpoint(const base::fs::path& folder);

struct FoundCheckpoint {
  base::fs::path folder;
  std::int64_t step = 0;
  std::vector<std::string> notes;  // on skipped checkpoints and missing checks
};

// The checkpoint that `resume_from_checkpoint` means, checked: a folder, or for "true" the newest one in
// output_dir that is complete. UserError when there is none, and when a named one is not complete; the
// message names the newest complete one.
FoundCheckpoint find_checkpoint(const base::fs::path& output_dir, const std::string& resume_from_checkpoint);

}  // namespace hone::train
