// From a pattern's text to the program that Pattern runs.
#pragma once

#include "base/strings/pattern.h"

namespace hone::base {

struct CompiledPattern {
  std::vector<Pattern::Instruction> program;
  std::vector<Pattern::Set> sets;
  std::map<std::string, int> names;
  int slots = 2;
  int marks = 0;  // slots after the captures: where a loop's last round began
};

CompiledPattern compile_pattern(const std::u32string& text, Pattern::Flags flags, const std::string& where);

}  // namespace hone::base
