// The base that an adapter is merged into, looked at before anything is written.
#pragma once

#include <string>
#include <vector>

#include "base/files/file.h"
#include "model/files/weight_source.h"

namespace hone::commands {

// Prints a warning (CKPT-07) when files of `base` have changed since one of `adapters` was trained, as far as its run
// noted them (train/opening/input_files.h). UserError (NUM-02) for the first tensor of `source` with values that are not finite,
// with their number. Reads every weight once.
void check_base_to_merge(const model::WeightSource& source, const std::string& base,
                         const std::vector<base::fs::path>& adapters);

}  // namespace hone::commands
