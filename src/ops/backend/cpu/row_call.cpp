#include "ops/backend/cpu/row_call.h"

namespace hone::ops {

bool rows_fit(std::initializer_list<const at::Tensor*> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor* t) {
    const at::ScalarType type = t->scalar_type();
    return t->device().is_cpu() && (type == at::kFloat || type == at::kBFloat16) &&
           (t->size(-1) == 1 || t->stride(-1) == 1);
  });
}

}  // namespace hone::ops
