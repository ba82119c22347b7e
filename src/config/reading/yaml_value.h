// A YAML text that is not a file of options, as one value.
#pragma once

#include <string>

#include "base/json.h"

namespace hone::config {

// UserError for text that is not YAML, for several documents, and past the limits of yaml_limits.h.
base::Json yaml_value(const std::string& text, const std::string& file_name);

}  // namespace hone::config
