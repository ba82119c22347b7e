#include "ops/swiglu.h"

#include <ATen/ATen.h>

namespace hone::ops {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return at::silu(gate) * up;
}

}  // namespace hone::ops
