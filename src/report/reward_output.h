// This shows in the terminal what reward functions print, and keeps it in output_dir/rewards.log.
#pragma once

#include <cstdint>
#include <string>

#include "base/files/file.h"
#include "train/facts/step_facts.h"

namespace hone::report {

class RewardOutput {
 public:
  // A fresh run (first_step 0) begins a new file, with the first that is printed; a resumed one goes on in it.
  RewardOutput(const base::fs::path& output_dir, std::int64_t first_step);

  // Appends all of it to the file. What to show of it: a line that says whose it is,
  //   print     length_reward, step 3, samples 0 to 7
  // and below it the first lines, printable and cut to the width (0: not cut).
  std::string take(const train::RolloutFacts& facts, int columns);

 private:
  base::fs::path path_;
};

// The lines of `text` that are shown, each after ten spaces; `whole` says where the others are.
std::string printed_lines(const std::string& text, int columns, const std::string& whole);

}  // namespace hone::report
