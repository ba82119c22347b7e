// A shell script as the commands that bash would run, read without running anything.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/others/other_run.h"

namespace hone::config {

struct ShellWord {
  std::string text;
  int line = 1;
  std::string unknown;  // why its text is not known; empty: it is
};
using ShellCommand = std::vector<ShellWord>;

struct ShellScript {
  std::vector<ShellCommand> commands;          // without the assignments in front of each
  std::map<std::string, ShellWord> variables;  // as they are at the end
};

// Continued lines, quotes, comments, NAME=value, NAME=(words), $NAME, ${NAME:-value}, ${NAME[@]}, $(expr 32 / $N) and
// $((32 / N)) are read. What only a shell could tell is an unknown word. A blank behind a backslash, which ends the
// command in bash, is a note of `out`, which may be null.
ShellScript shell_commands(const std::string& text, const std::string& path, OtherRun* out);

}  // namespace hone::config
