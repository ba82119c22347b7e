#include "ops/backend/cuda.h"

namespace hone::ops::backend {

const Operators* cuda_operators() {
  return nullptr;
}

}  // namespace hone::ops::backend
