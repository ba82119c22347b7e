// Which of many steps a page shows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hone::report {

// At most `most` of `count` places, at even distances that stay when places are added: every 2^k-th, and the last.
inline std::vector<std::size_t> spread(std::size_t count, std::size_t most) {
  std::size_t stride = 1;
  while ((count + stride - 1) / stride + 1 > std::max<std::size_t>(most, 2)) stride *= 2;
  if (count <= most) stride = 1;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < count; i += stride) out.push_back(i);
  if (count > 0 && out.back() != count - 1) out.push_back(count - 1);
  return out;
}

}  // namespace hone::report
