// Any processor: four lanes are what every 64-bit one has.
#define HONE_NATIVE_LANES 4
#define HONE_FMA(a, b, c) ((a) * (b) + (c))
#include "ops/backend/cpu/bodies/delta_rule_body.h"

namespace hone::ops::delta {

const Kernels* kernels_portable() {
  return &kKernels;
}

}  // namespace hone::ops::delta
