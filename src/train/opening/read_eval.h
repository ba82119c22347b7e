// The rows to evaluate: of one data set, or of several one after another.
#pragma once

#include <functional>
#include <optional>

#include "base/row_files.h"
#include "config/plan.h"
#include "train/batches/run_data.h"

namespace hone::train {

// Appends the rows of `more`, and their sets.
void append(RecordData& to, RecordData more);

// `read(files)`: the rows of one set. Empty: nothing is evaluated.
std::optional<RecordData> read_eval(const config::DataPlan& plan,
                                    const std::function<RecordData(const base::RowFiles&)>& read);

}  // namespace hone::train
