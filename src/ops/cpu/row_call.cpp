#include "ops/cpu/row_call.h"

#include "ops/cpu/instructions.h"

namespace hone::ops {

bool rows_fit(std::initializer_list<const at::Tensor*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor* t) {
    const at::ScalarType type = t->scalar_type();
    return t->device().is_cpu() && (type == at::kFloat || type == at::kBFloat16) &&
           (t->size(-1) == 1 || t->stride(-1) == 1);
  });
}

const RowKernels& row_kernels() {
  const RowKernels* kernels = nullptr;
  switch (instructions()) {
    case Instructions::kPortable:
      break;
    case Instructions::kAvx2:
      kernels = row_kernels_avx2();
      break;
    case Instructions::kAvx512:
    case Instructions::kAvx512Bf16:  // its vcvtneps2bf16 flushes subnormals: not our rounding
    case Instructions::kAmx:
      kernels = row_kernels_avx512();
      break;
  }
  return kernels != nullptr ? *kernels : *row_kernels_portable();
}

}  // namespace hone::ops
