// The targets of test_fuzz, which CMakeLists.txt lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace hone::fuzz {

struct Target {
  std::string name;
  int (*take)(const std::uint8_t* data, std::size_t size);
};
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest asks for it
inline void PrintTo(const Target& target, std::ostream* out) {
  *out << target.name;
}
const std::vector<Target>& all_targets();

}  // namespace hone::fuzz
