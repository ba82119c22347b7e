// Whether a checkpoint is whole: its own record (hone_state.json) and every file that it names.
//
// hone_state.json ends with a CRC-32C of all bytes before it, and holds size and CRC-32C of the other files,
// so that a change of any bit of a checkpoint is found. The step stands in the folder's name, in
// hone_state.json, in the optimizer's metadata and in trainer_state.json, and has to be the same in all of
// them. Checkpoints of format 2 have no checksum of hone_state.json itself; the rest is checked alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace hone::train {

// Not what was saved: a file changed, cut or gone. Other UserErrors say that it cannot be read at all:
// rights, or a format of another version.
class CheckpointDamage : public base::UserError {
 public:
  using UserError::UserError;
};

// The text of hone_state.json for `state`, which gets its format and checksum here.
std::string sealed_state(const base::Json& state);

struct CheckedCheckpoint {
  base::Json state;  // of hone_state.json
  std::int64_t step = 0;
  bool sealed = true;  // false: of an older hone, without a checksum of its own
};
CheckedCheckpoint check_checkpoint(const base::fs::path& folder);

struct FoundCheckpoint {
  base::fs::path folder;
  std::int64_t step = 0;
  std::vector<std::string> notes;  // of what was passed over, and what could not be checked
};

// The checkpoint that `resume_from_checkpoint` means, checked: a folder, or for "true" the newest one in
// output_dir that is whole. UserError when there is none, and for a named one that is not whole: it names the
// newest that is.
FoundCheckpoint find_checkpoint(const base::fs::path& output_dir, const std::string& resume_from_checkpoint);

}  // namespace hone::train
