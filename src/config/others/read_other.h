// A file of another trainer as names and values with their lines, before anything is known of their meaning.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace hone::config {

struct OtherEntry {
  std::string name;
  base::Json value;
  std::string where;                // "run.yaml:7"
  std::vector<std::string> before;  // the places that the last one overrides
};

struct OtherFile {
  std::string path;
  std::vector<OtherEntry>
      entries;  // each name once; of a name that is there twice the last one counts, as for PyYAML

  const OtherEntry* find(std::string_view name) const;  // null: it is not there
};

// YAML, or JSON in a file whose name ends with .json. Numbers, true, false and null are read by YAML 1.2's
// core rules. UserError for text that is neither, for a file that is no mapping, and past the limits of
// config/reading/yaml_limits.h.
OtherFile read_other_text(const std::string& text, const std::string& path);

}  // namespace hone::config
