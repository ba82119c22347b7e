// What an examination says about one class of fault (60 codes; doctor/catalogue/catalogue.h): plain
// data that every room can make and report/ prints.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hone::base {

enum class Level {
  kOk,    // looked at, and right
  kNote,  // worth knowing; a known false alarm, named
  kWarn,  // the run goes on; `--strict` makes it an exit code
  kFail,  // the run would be wasted: it is stopped before step 1, or paused
};

// One line of the doctor's. `code`, `part`, `level` and `what` always; of a warning or a failure `evidence`
// besides, with the number that proves it.
struct Verdict {
  std::string code;  // "GRAD-01"; empty: a remark that belongs to no class
  Level level = Level::kOk;
  std::string part;      // config, hardware, data, gradient, numerics, reward, rollout, budget, files, run
  std::string what;      // "0 of 96 trainable tensors receive a gradient"
  std::string evidence;  // what was measured: numbers, names, where
  std::string cause;     // "suspected: ..." where it is not proven
  std::string not_this;  // what users suspect, and what it is not
  std::string fix;       // in the words of the YAML
  std::string cost;      // what would be lost
  // What --fix would change: option and new value; only what loses nothing.
  std::vector<std::pair<std::string, std::string>> repair;
};

}  // namespace hone::base
