// Two configurations of the same method held beside each other, option by option: what `hone bisect` searches
// in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/settings.h"

namespace hone::config {

// Empty: not set, so that the default counts.
struct OptionDifference {
  std::string name;
  std::optional<base::Json> good, bad;
};

// Options whose values differ, in table order; `leave_out` by name.
std::vector<OptionDifference> differences(const Settings& good, const Settings& bad,
                                          const std::vector<std::string>& leave_out);

// Every option that `good` sets, with the bad value of those `from_bad` (ascending numbers in `differences`):
// YAML.
std::string mixed_yaml(const Settings& good, const std::vector<OptionDifference>& differences,
                       const std::vector<std::size_t>& from_bad);

// "-name: value" and "+name: value" lines, as `diff` shows them; "# not set" where one does not set it.
std::string difference_lines(const OptionDifference& difference);

}  // namespace hone::config
