// The table of ops/backend/cuda on the stand-in.
#pragma once

#include "ops/backend/cuda.h"

namespace hone::standin {

// While it lives, operators on the stand-in are those of GPUs; one at a time.
class UseCudaTable {
 public:
  UseCudaTable();
  ~UseCudaTable();
  UseCudaTable(const UseCudaTable&) = delete;
  UseCudaTable& operator=(const UseCudaTable&) = delete;
};

}  // namespace hone::standin
