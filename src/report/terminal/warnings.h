// Warnings of a run: each shown once, repetitions counted.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hone::report {

class Warnings {
 public:
  // Whether it is new and should be shown. Texts that differ only in numbers (of a sample, of a line) are the
  // same warning.
  bool add(std::string_view text);
  // "13 times: <the first text>" for those that occurred more than once, in order of first occurrence.
  std::vector<std::string> repeated() const;

 private:
  struct Kind {
    std::string first;
    std::int64_t times = 0;
  };
  std::map<std::string, std::size_t> index_;  // text without its numbers -> kinds_
  std::vector<Kind> kinds_;
};

}  // namespace hone::report
