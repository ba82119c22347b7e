// Options that hold keywords of another function (lr_scheduler_kwargs, optim_args): which a choice has, and numbers as text.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/option_table.h"

namespace hone::config {

// A row of such a table: the keywords of `choice`, separated by spaces.
template <typename Choice>
struct Keywords {
  Choice choice;
  std::string_view names;
};

template <typename Table, typename Choice>
std::vector<std::string> keywords_of(const Table& table, Choice choice) {
  for (const auto& row : table) {
    if (row.choice == choice) return split_words(row.names);
  }
  return {};
}

// The whole text as a number; empty: it is none.
inline std::optional<double> number_from(std::string_view text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

}  // namespace hone::config
