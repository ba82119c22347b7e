#include "parallel/ranks.h"

namespace hone::parallel {

std::vector<std::string> OneRank::gather(std::string_view bytes, std::string_view /*what*/) {
  return {std::string(bytes)};
}

std::string OneRank::broadcast(std::string_view bytes, std::string_view /*what*/) {
  return std::string(bytes);
}

Agreed OneRank::agree(std::span<const std::int64_t> values, std::string_view /*what*/) {
  const std::vector<std::int64_t> own(values.begin(), values.end());
  return {own, own, own};
}

}  // namespace hone::parallel
