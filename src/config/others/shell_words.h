// The words of a shell script, read as bash reads them, without running anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/others/other_run.h"
#include "config/others/read_other.h"
#include "config/others/recognize.h"

namespace hone::config {

// Finds what the script starts: "swift sft", "megatron sft", "llamafactory train"; null: a run of neither trainer.
std::optional<Recognized> trainer_command(const std::string& text);

// The options of the last such command of a script, and swift's verb as the entry "swift_verb". Continued lines,
// quotes, comments, NAME=value, $NAME and ${NAME:-value} are read; what only a shell could tell is added to
// `unknown`. A blank behind a backslash, which ends the command in bash, is a note.
OtherFile read_command_script(const std::string& text, const std::string& path, OtherRun& out);

}  // namespace hone::config
