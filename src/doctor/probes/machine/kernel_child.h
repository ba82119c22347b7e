// A child process with line-based input and output.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"

namespace hone::doctor {

struct ChildEnd {
  bool started = true;
  bool late = false;  // no output for longer than `patience`: killed
  int signal = 0;     // the signal that ended it; 0: none
  int status = 0;     // else its exit status
};

// Runs `program arguments...` in its own process group with `input` as standard input, and passes every line
// of its standard output to `on_line`; standard error is discarded. Returns when it has ended.
ChildEnd run_child(const base::fs::path& program, const std::vector<std::string>& arguments,
                   std::string_view input, std::chrono::milliseconds patience,
                   const std::function<void(const std::string&)>& on_line);

}  // namespace hone::doctor
