// The difference of two configurations of one method, option by option, for `hone bisect`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/settings.h"

namespace hone::config {

// Empty: not set, so the default applies.
struct OptionDifference {
  std::string name;
  std::optional<base::Json> good, bad;
};

// Options whose values differ, in table order, without those named in `leave_out`.
std::vector<OptionDifference> differences(const Settings& good, const Settings& bad,
                                          const std::vector<std::string>& leave_out);

// YAML with every option of `good`, but with the bad value for the differences `from_bad` (ascending indices
// into `differences`).
std::string mixed_yaml(const Settings& good, const std::vector<OptionDifference>& differences,
                       const std::vector<std::size_t>& from_bad);

// "-name: value" and "+name: value" lines, as `diff` shows them; "# not set" when one of them does not set
// it.
std::string difference_lines(const OptionDifference& difference);

}  // namespace hone::config
