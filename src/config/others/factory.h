// The parts of LLaMA-Factory's file that take several names together.
#pragma once

#include "config/others/translation.h"

namespace hone::config::factory {

// `sets` is dataset_info.json, or null where it is not here.
void add_data(Translation& t, const OtherFile* sets);

}  // namespace hone::config::factory
