// Look-up of named numbers (train::NamedValue).
#pragma once

#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "train/facts/step_facts.h"

namespace hone::report {

inline const train::NamedValue* find_value(const std::vector<train::NamedValue>& values,
                                           std::string_view name) {
  for (const auto& each : values) {
    if (each.first == name) return &each;
  }
  return nullptr;
}

inline bool has_value(const std::vector<train::NamedValue>& values, std::string_view name) {
  return find_value(values, name) != nullptr;
}

// The value, also NaN; 0 when absent.
inline double value_or_zero(const std::vector<train::NamedValue>& values, std::string_view name) {
  const train::NamedValue* found = find_value(values, name);
  return found == nullptr ? 0 : found->second;
}

// Empty when it is absent, NaN or infinite.
inline std::optional<double> finite_value(const std::vector<train::NamedValue>& values,
                                          std::string_view name) {
  const train::NamedValue* found = find_value(values, name);
  if (found == nullptr || !std::isfinite(found->second)) return std::nullopt;
  return found->second;
}

// For four decimals: values that print as 0 lose their sign.
inline double four_decimals(double value) {
  return std::abs(value) < 0.00005 ? 0 : value;
}

}  // namespace hone::report
