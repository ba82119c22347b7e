// The text that a Python process of hone runs: standard library only, Python 3.8 or later. It is started under a watcher, which ends
// what it has started.
#pragma once

#include <string>
#include <string_view>

namespace hone::python {

struct Program {
  std::string who;       // what messages call it: "reward worker"
  std::string what_for;  // "to run reward functions"
  std::string text;      // worker_base() and what is its own; ends with a call of serve()
};

// Frames (frames.h) on descriptor kWorkerDescriptor, words for errors, loading functions, serve(): what programs begin with.
std::string_view worker_base();

// What `python -c` is given: starts the worker under a watcher, reads `program.text` from the descriptor and runs it.
//
// Modules are looked for in PYTHONPATH, the standard library, the folder of a function's file, the working folder, installed packages. A
// queue.py beside a function therefore shadows nothing, of the worker's or of the user's. The worker's own imports come from the
// standard library before any of that.
std::string bootstrap(const Program& program);

inline constexpr int kWorkerDescriptor = 3;
inline constexpr int kWatcherDescriptor = 4;

}  // namespace hone::python
