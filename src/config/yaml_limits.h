// Bounds on YAML, in which a few bytes can stand for very much: an alias may be used again and again, within
// others that are, and within itself.
#pragma once

#include <cstddef>

namespace hone::config {

inline constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20;   // of a file
inline constexpr std::size_t kMaxYamlValues = std::size_t{1} << 20;  // bytes, with every alias written out
inline constexpr int kMaxYamlDepth = 100;

}  // namespace hone::config
