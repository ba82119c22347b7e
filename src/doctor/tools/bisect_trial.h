// One try of a search: a run of a few steps in a child process, and its result.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/files/file.h"
#include "doctor/tools/bisect.h"

namespace hone::doctor {

struct TrialOptions {
  base::fs::path program;  // hone itself
  std::string method;      // "sft"
  std::int64_t steps = 3;
  double timeout = 600;                     // seconds; after that the try counts as failed
  base::fs::path folder;                    // empty, only for this try: its configuration, output and log
  const std::atomic<bool>* stop = nullptr;  // the user's Ctrl-C: the child is killed
};

struct Trial {
  Outcome outcome = Outcome::kPasses;
  // How it failed: "signal 8 (SIGFPE)", "GRAD-01", "exit 2", "loss not finite", "time-out"; "stopped" when
  // the user asked for it.
  std::string kind;
  std::string message;  // its message, from the child's output; may be empty
  double seconds = 0;
};

// `hone METHOD --config <folder>/run.yaml --max_steps N --output_dir <folder>/out`, in its own process group.
// Fails when the exit code is not 0, on a signal, on a time-out, or when the loss is not finite.
Trial run_trial(const std::string& yaml, const TrialOptions& options);

}  // namespace hone::doctor
