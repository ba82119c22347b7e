// The options of a run, as the program's commands read them.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"

namespace hone::library {

// UserError for an unknown method, for mistakes in the options, and for a name of the hub that is not in its
// cache.
config::Plan plan_of(const std::string& method, const std::vector<std::string>& arguments);

}  // namespace hone::library
