// Which model an adapter belongs to.
#pragma once

#include <string>

namespace hone::commands {

// `named`, or the base that the adapter's adapter_config.json names; UserError when that is not on this
// machine.
std::string base_of_adapter(const std::string& named, const std::string& adapter);

}  // namespace hone::commands
