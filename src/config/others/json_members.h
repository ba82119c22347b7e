// Members of a trainer's values, which may be of any kind.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace hone::config {

// The member; null where there is none, or `map` is no object.
inline const base::Json& member(const base::Json& map, std::string_view name) {
  static const base::Json nothing;
  if (!map.is_object()) return nothing;
  const auto found = map.find(name);
  return found == map.end() ? nothing : *found;
}

// The member where it is a text, else `fallback`.
inline std::string text_of(const base::Json& map, std::string_view name, const std::string& fallback = {}) {
  const base::Json& found = member(map, name);
  return found.is_string() ? found.get<std::string>() : fallback;
}

// True of a path of load_dataset that only says how `data_files` are read.
inline bool is_file_reader(std::string_view path) {
  return path == "json" || path == "csv" || path == "parquet" || path == "text";
}

}  // namespace hone::config
