// The table of ops/backend/cuda on the stand-in.
#pragma once

#include "ops/backend/cuda.h"
#include "ops/backend/operators.h"

namespace hone::standin {

// While it lives, operators on the stand-in are those of GPUs, or of this table of their kind; one at a time.
class UseCudaTable {
 public:
  explicit UseCudaTable(const ops::backend::Operators& table = ops::backend::cuda_operators());
  ~UseCudaTable();
  UseCudaTable(const UseCudaTable&) = delete;
  UseCudaTable& operator=(const UseCudaTable&) = delete;
};

}  // namespace hone::standin
