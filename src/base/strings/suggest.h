// Suggestions for unknown names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hone::base {

// Optimal string alignment distance (insert, delete, replace, swap neighbors), case-insensitive.
int edit_distance(std::string_view a, std::string_view b);

// Up to `most` candidates similar to `name`, best first; empty when none is similar.
std::vector<std::string> nearest_names(std::string_view name, std::span<const std::string> candidates,
                                       int most = 3);

// " Did you mean 'packing'?" or "".
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace hone::base
