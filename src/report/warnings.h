// Warnings of a run: each said once, repetitions counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hone::report {

class Warnings {
 public:
  // Whether it is new: to be shown now. Texts that differ only in their numbers (of a sample, of a line)
  // are the same warning.
  bool add(std::string_view text);
  // "13 times: <the first text>" of those that came more than once, in the order of their first time.
  std::vector<std::string> repeated() const;

 private:
  struct Kind {
    std::string first;
    std::int64_t times = 0;
  };
  std::map<std::string, std::size_t> index_;  // text with its numbers taken out -> kinds_
  std::vector<Kind> kinds_;
};

}  // namespace hone::report
