// The parts of axolotl's file that take several names together.
#pragma once

#include "config/others/translation.h"

namespace hone::config::axolotl {

void add_data(Translation& t);  // datasets, their forms, templates, tokens
void add_runs(Translation& t);  // evaluation, saves, deepspeed, fsdp, plugins

}  // namespace hone::config::axolotl
