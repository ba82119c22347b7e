// Ctrl-C, SIGTERM and SIGHUP in a training run: the first asks the loop to finish its step and save, the
// second kills.
#pragma once

#include <atomic>

namespace hone::commands {

// Installs the handlers; returns the flag for the loop (LoopParts::stop_requested).
const std::atomic<bool>& watch_stop_signals();

// What the first Ctrl-C does, without its line.
void request_stop();

constexpr int kInterrupted = 130;

}  // namespace hone::commands
