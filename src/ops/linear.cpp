#include "ops/linear.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/announce.h"
#include "ops/dropout.h"

namespace hone::ops {

const Weight& LoraSide::operand(const at::Tensor& master, Shadow& shadow, at::ScalarType dtype) {
  const std::int64_t version = master._version();
  const bool fresh =
      shadow.master.is_same(master) && shadow.version == version && shadow.weight.dtype() == dtype;
  if (fresh) return shadow.weight;
  const at::Tensor plain = master.detach().to(dtype);
  shadow = {.weight = Weight::can_pack(plain) ? Weight::pack(plain) : Weight(plain),
            .master = master,
            .version = version};
  return shadow.weight;
}

at::Tensor linear_forward(const Linear& linear, const at::Tensor& x, const PassContext& pass) {
  const at::ScalarType dtype = linear.weight.dtype();
  announce("gemm", x.size(0), linear.weight.out(), linear.weight.in(), dtype);
  const std::optional<at::Tensor> bias =
      linear.bias.defined() ? std::optional<at::Tensor>(linear.bias) : std::nullopt;
  const at::Tensor y = at::linear(x.to(dtype), linear.weight.dense(), bias);
  if (!linear.lora || !pass.adapters_on) return y;
  const LoraSide& side = *linear.lora;
  // PEFT drops in fp32, before the GEMM rounds.
  const at::Tensor input = pass.training && side.dropout > 0
                               ? apply_dropout(x, pass, side.dropout_key, side.dropout, dtype)
                               : x.to(dtype);
  const at::Tensor low = at::linear(input, side.a.to(dtype));  // [T, r]
  return y + at::linear(low, side.b.to(dtype)) * side.scale;
}

}  // namespace hone::ops
