// A child process that talks in lines.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hone::doctor {

struct ChildEnd {
  bool started = true;
  bool late = false;  // it was silent for longer than `patience`, and was killed
  int signal = 0;     // that killed it; 0: none
  int status = 0;     // its exit status otherwise
};

// Runs `program arguments...` in a process group of its own, gives it `input` and the end of it, and hands
// every line of its standard output to `on_line`; what it says on standard error is lost. Returns when it has
// ended.
ChildEnd run_child(const base::fs::path& program, const std::vector<std::string>& arguments,
                   std::string_view input, std::chrono::milliseconds patience,
                   const std::function<void(const std::string&)>& on_line);

std::string end_signal_name(int signal);  // "SIGFPE"; of one without a name here "signal 9"

}  // namespace hone::doctor
