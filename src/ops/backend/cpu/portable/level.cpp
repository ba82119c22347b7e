// Runs on every processor. Products of bf16 and float32 are libtorch's.
#include "ops/backend/cpu/level.h"

namespace hone::ops {

LevelKernels portable_level() {
  return {.rows = row_kernels_portable(),
          .delta = delta::kernels_portable(),
          .attend = attention_kernels::forward_portable,
          .unpack_panel = kernels::unpack_panel,
          .fill_mask = fill_mask_portable};
}

}  // namespace hone::ops
