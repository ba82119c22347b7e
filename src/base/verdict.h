// The result of a check for one class of fault (60 codes; doctor/catalogue/catalogue.h): data that any room
// can create and report/ prints.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hone::base {

enum class Level {
  kOk,    // checked, no fault
  kNote,  // worth knowing; a known false alarm, named
  kWarn,  // the run continues; `--strict` makes it an exit code
  kFail,  // the run would be wasted: it is stopped before step 1, or paused
};

// One line of the doctor's report. `code`, `part`, `level` and `what` are always set; a warning or a failure
// also has `evidence`, with the number that proves it.
struct Verdict {
  std::string code;  // "GRAD-01"; empty: a remark without a class
  Level level = Level::kOk;
  std::string part;      // config, hardware, data, gradient, numerics, reward, rollout, budget, files, run
  std::string what;      // "0 of 96 trainable tensors receive a gradient"
  std::string evidence;  // what was measured: numbers, names, where
  std::string cause;     // "suspected: ..." where it is not proven
  std::string not_this;  // a cause that users often suspect, and that was ruled out
  std::string fix;       // as lines of the YAML
  std::string cost;      // what would be lost
  // --fix would make these changes: option and new value. Only changes that lose nothing.
  std::vector<std::pair<std::string, std::string>> repair;
};

}  // namespace hone::base
