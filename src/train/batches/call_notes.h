// Notes of a batch's calls. A model that calls badly fails often, and each note has its words: the first are told, the rest is in the
// rollouts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hone::train {

class FewNotes {
 public:
  // They are put behind `to`.
  explicit FewNotes(std::vector<std::string>& to) : to_(to) {}

  void tell(const std::string& who, const std::vector<std::string>& notes) {
    for (const std::string& note : notes) {
      if (++count_ <= kMost) to_.push_back(who + ": " + note);
    }
  }
  // "tools: 3 more such calls in this batch"
  void end(const std::string& what) {
    if (count_ > kMost) to_.push_back("tools: " + std::to_string(count_ - kMost) + " more " + what);
  }

 private:
  static constexpr std::size_t kMost = 4;
  std::vector<std::string>& to_;
  std::size_t count_ = 0;
};

}  // namespace hone::train
