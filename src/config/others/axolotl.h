// The parts of axolotl's file that take several names together.
#pragma once

#include "config/others/translation.h"

namespace hone::config::axolotl {

// A set of the file as an entry of hone's datasets: {path: json, data_files: rows.jsonl} is a file.
base::Json set_entry(const base::Json& set);
void add_data(Translation& t);  // datasets, their forms, templates, tokens
void add_runs(Translation& t);  // evaluation, saves, deepspeed, fsdp, plugins

}  // namespace hone::config::axolotl
