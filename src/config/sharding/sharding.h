// deepspeed, accelerate_config, fsdp and fsdp_config: what their keys mean here, by the tables of sharding_rows.h.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"

namespace hone::config {

// Sets the options that keys are, and empties the four options, so that plan.yaml does not depend on their files. Collects a mistake for
// each unknown or refused key, and for each value that contradicts the run's. Returns notes: one for each reason, with the keys.
std::vector<std::string> apply_sharding(Settings& settings);

// UserError for what parallelism_config, of Accelerate, would divide besides the data. Sizes of data parallelism are fine.
void check_parallelism(const base::Json& given, const std::string& where);

// A mapping, which may also be JSON text, the name of a file (JSON or YAML), or a mapping whose config_file is that name. `where` is for
// messages. Null where it is off.
base::Json mapping_or_file(const base::Json& value, const std::string& where);

}  // namespace hone::config
