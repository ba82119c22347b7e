#include "data/files/describe_row.h"

#include <algorithm>

#include "base/strings/utf8.h"

namespace hone::data {

std::vector<std::string> columns_of(const base::Json& row) {
  std::vector<std::string> names;
  for (const auto& entry : row.items()) names.push_back(entry.key());
  return names;
}

std::string join(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 20;
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    out += (i == 0 ? "" : ", ") + base::cut_text(names[i], 100);
  }
  if (names.size() > kMost) out += " and " + std::to_string(names.size() - kMost) + " more";
  return names.empty() ? "none" : out;
}

std::string a_type(const base::Json& value) {
  if (value.is_null()) return "null";
  if (value.is_string()) return value.get_ref<const std::string&>().empty() ? "an empty string" : "a string";
  if (value.is_array()) return value.empty() ? "an empty list" : "a list";
  if (value.is_object()) return "an object";
  return value.is_boolean() ? "a boolean" : "a number";
}

}  // namespace hone::data
