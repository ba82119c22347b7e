#include "standin/wrong_table.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/backend/cuda.h"

namespace hone::standin {

ops::backend::Operators table_with_wrong(const std::string& op) {
  ops::backend::Operators table = ops::backend::cuda_operators();
  if (op == "swiglu") {
    table.swiglu = [](const at::Tensor& out, const at::Tensor& gate, const at::Tensor& up, bool gelu_tanh) {
      const at::Tensor wide = gate.to(at::kFloat);
      out.copy_((gelu_tanh ? at::gelu(wide, "tanh") : at::silu(wide)) * up.to(at::kFloat) * 1.05);
      return true;
    };
  } else if (op == "gemms") {
    table.gemms = [](std::span<const ops::Gemm* const> products) {
      if (!ops::backend::cuda_operators().gemms(products)) return false;
      for (const ops::Gemm* const one : products) at::Tensor(one->out).mul_(1.05);
      return true;
    };
  } else {
    base::require(op.empty(), "standin::table_with_wrong", "swiglu or gemms");
  }
  return table;
}

}  // namespace hone::standin
