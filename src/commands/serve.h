// hone serve MODEL: a server of the model and its adapters, until a signal ends it.
#pragma once

#include <string>
#include <vector>

namespace hone::commands {

int serve(const std::vector<std::string>& arguments);

}  // namespace hone::commands
