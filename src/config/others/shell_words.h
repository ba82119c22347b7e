// The words of a shell script, read as bash reads them, without running anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/others/other_run.h"
#include "config/others/read_other.h"

namespace hone::config {

// "swift sft", "megatron sft" in a text: what the script starts; null: nothing of ms-swift.
std::optional<std::string> swift_command(const std::string& text);

// The options of the last `swift VERB` of a script, and VERB as the entry "swift_verb". Continued lines,
// quotes, comments, NAME=value, $NAME and ${NAME:-value} are read; what only a shell could tell is added to
// `unknown`. A blank behind a backslash, which ends the command in bash, is a note.
OtherFile read_swift_script(const std::string& text, const std::string& path, OtherRun& out);

}  // namespace hone::config
