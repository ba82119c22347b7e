// Signals that ask a training run to stop: Ctrl-C, SIGTERM, SIGHUP, and SIGUSR1 and SIGUSR2, with which schedulers warn of the end of a job.
//
//   the first              the loop finishes its step, saves and ends with kInterrupted. A step that takes longer than the grace is cut
//                          short: the last one that was done is saved at once
//   another within 2 s     the same request: launchers and schedulers send several
//   a later Ctrl-C         ends the process at once, and leaves word of it for `hone explain`
//   a later SIGTERM        cuts the step short now; SIGHUP too. Nothing interrupts a save but Ctrl-C and SIGKILL
//   a later SIGUSR1        nothing; SIGUSR2 too
#pragma once

#include <atomic>

namespace hone::commands {

// Installs the handlers; returns the flag for the loop (LoopParts::stop_requested). `seconds`: the grace.
const std::atomic<bool>& watch_stop_signals(double seconds = 1e9);

// Does what the first Ctrl-C does, but prints no line.
void request_stop();

constexpr int kInterrupted = 130;

}  // namespace hone::commands
