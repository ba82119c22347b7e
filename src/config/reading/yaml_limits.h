// Limits for YAML, in which nested or recursive aliases can expand a few bytes to very many values.
#pragma once

#include <cstddef>

namespace hone::config {

inline constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20;   // of a file
inline constexpr std::size_t kMaxYamlValues = std::size_t{1} << 20;  // bytes, with every alias written out
inline constexpr int kMaxYamlDepth = 100;

}  // namespace hone::config
