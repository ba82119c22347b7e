// The base model of an adapter.
#pragma once

#include <string>
#include <vector>

#include "base/files/file.h"

namespace hone::commands {

// `adapter` and the adapters below it, in the order in which they are added; prints a note when `below`
// differs from those of its training. `adapter` may be empty.
std::vector<base::fs::path> adapter_stack(const std::vector<std::string>& below, const std::string& adapter);

// `named`, or the base that the adapter's adapter_config.json names; UserError when that is not on this
// machine.
std::string base_of_adapter(const std::string& named, const std::string& adapter);

// Says so, where the base's head is tied and that of the model with the adapters merged is not.
void print_untied_head(const std::string& base, const std::vector<base::fs::path>& adapters);

}  // namespace hone::commands
