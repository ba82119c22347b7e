// Any processor: four lanes are what every 64-bit one has.
#define HONE_NATIVE_LANES 4
#include "ops/backend/cpu/bodies/row_kernels_body.h"

namespace hone::ops {

const RowKernels* row_kernels_portable() {
  return &kRowKernels;
}

}  // namespace hone::ops
