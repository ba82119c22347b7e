// The rules of rows that are made as they are needed (dataset_streaming), of every method on given rows.
#pragma once

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

// After the method's own rules. UserError for what needs all rows before step 1.
void finish_streaming(Plan& plan, const Settings& settings);

}  // namespace hone::config
