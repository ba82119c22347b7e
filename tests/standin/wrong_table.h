// The table of GPUs with one wrong kernel: what the doctor and `hone gpu-check` are to find.
#pragma once

#include <string>

#include "ops/backend/operators.h"

namespace hone::standin {

// `op`: swiglu or gemms, whose results are then 5 % too large; empty: none.
ops::backend::Operators table_with_wrong(const std::string& op);

}  // namespace hone::standin
