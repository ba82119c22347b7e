// Ctrl-C and its kin in a training run: the first asks the loop to finish its step and save, the second
// kills.
#pragma once

#include <atomic>

namespace hone::commands {

// Installs the handlers; the flag is what a loop watches (LoopParts::stop_requested).
const std::atomic<bool>& watch_stop_signals();

constexpr int kInterrupted = 130;

}  // namespace hone::commands
