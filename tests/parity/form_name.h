// Which of TRL's recorded runs ./test holds in every form of the layer, and which in --slow alone.
#pragma once

#include <numeric>
#include <string>

namespace hone::parity {

// The name of the test of one recorded run in one form of the pass. Every run is held in the form that users
// get, `usual`, and about one of four in the other forms, which tests/train compares with it. The rest is
// "Slow", by which ./test knows it.
inline std::string form_name(const std::string& name, const std::string& form, const std::string& usual) {
  const int sum = std::accumulate(name.begin(), name.end(), 0);
  return name + "_" + form + (form == usual || sum % 4 == 0 ? "" : "_Slow");
}

}  // namespace hone::parity
