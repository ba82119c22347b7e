// This table says what hone does with each key of adapter_config.json. Its rows are the fields of PEFT
// 0.21.2's LoraConfig and of the classes that it inherits from.
#pragma once

#include "base/read_keys.h"

namespace hone::adapters {

// A value of a refused key other than null, false, "none" or nothing is an error, as is a key that no row
// has.
const base::ReadKeys& adapter_config_keys();

}  // namespace hone::adapters
