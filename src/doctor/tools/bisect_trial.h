// One try of a search: a run of a few steps in a child process, and what became of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/file.h"
#include "doctor/tools/bisect.h"

namespace hone::doctor {

struct TrialOptions {
  base::fs::path program;  // hone itself
  std::string method;      // "sft"
  std::int64_t steps = 3;
  double timeout = 600;   // seconds; after that the try counts as failed
  base::fs::path folder;  // empty, for this try alone: its configuration, output and what it printed
  const std::atomic<bool>* stop = nullptr;  // the user's Ctrl-C: the child is killed
};

struct Trial {
  Outcome outcome = Outcome::kPasses;
  // How it failed: "signal 8 (SIGFPE)", "GRAD-01", "exit 2", "loss not finite", "time-out"; "stopped" when
  // the user asked for it.
  std::string kind;
  std::string message;  // its own words, from the child's output; may be empty
  double seconds = 0;
};

// `hone METHOD --config <folder>/run.yaml --max_steps N --output_dir <folder>/out`, in a process group of its
// own. Fails when it ends with anything but 0, by a signal, too late, or with a loss that is not finite.
Trial run_trial(const std::string& yaml, const TrialOptions& options);

}  // namespace hone::doctor
