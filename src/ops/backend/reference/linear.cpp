#include "ops/linear.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "base/error.h"
#include "ops/backend/announce.h"
#include "ops/dora.h"
#include "ops/dropout.h"

namespace hone::ops {
namespace {

// x W^T + b that saves the codes for its backward, where at::linear would save the dequantized matrix.
struct QuantizedProduct : torch::autograd::Function<QuantizedProduct> {
  struct Kept : torch::CustomClassHolder {
    explicit Kept(Weight of) : weight(std::move(of)) {}
    Weight weight;
  };
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const Weight& weight,
                            const std::optional<at::Tensor>& bias) {
    ctx->saved_data["weight"] = c10::IValue::make_capsule(c10::make_intrusive<Kept>(weight));
    return at::linear(x, weight.dense(), bias);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& d) {
    const auto kept = ctx->saved_data["weight"].toCapsule();
    return {at::mm(d[0], static_cast<const Kept&>(*kept).weight.dense()), at::Tensor(), at::Tensor()};
  }
};

at::Tensor multiply(const Weight& weight, const at::Tensor& x, const std::optional<at::Tensor>& bias) {
  if (weight.is_quantized()) return QuantizedProduct::apply(x, weight, bias);
  return at::linear(x, weight.dense(), bias);
}

bool reads_trained(const Linear& linear, const PassContext& pass) {
  return linear.trained_weight.defined() && (pass.adapters_on || !linear.weight.has_numbers());
}

}  // namespace

const Weight& CastWeight::of(const at::Tensor& master, at::ScalarType dtype) const {
  const std::int64_t version = master._version();
  if (master_.is_same(master) && version_ == version && weight_.dtype() == dtype) return weight_;
  const at::Tensor values = master.detach();
  const bool is_master = dtype == at::kFloat && values.scalar_type() == dtype;  // read as it is
  if (packs_ && !is_master) {
    weight_ = Weight::packed_where_possible(values.to(dtype));
  } else if (dtype != values.scalar_type() && master_.is_same(master) && weight_.dtype() == dtype) {
    at::Tensor(weight_.plain()).copy_(values);  // the same memory after every step
  } else {
    weight_ = values.to(dtype);
  }
  master_ = master;
  version_ = version;
  return weight_;
}

void CastWeight::release() const {
  weight_ = Weight();
  master_.reset();
}

at::Tensor trained_or(const at::Tensor& frozen, const at::Tensor& trained, const PassContext& pass) {
  if (!trained.defined() || !pass.adapters_on) return frozen;
  return trained.to(frozen.scalar_type());
}

const Weight& weight_of(const Linear& linear, const PassContext& pass) {
  return reads_trained(linear, pass) ? linear.trained_cast.of(linear.trained_weight, linear.weight.dtype())
                                     : linear.weight;
}

at::Tensor linear_forward(const Linear& linear, const at::Tensor& x, const PassContext& pass) {
  const at::ScalarType dtype = linear.weight.dtype();
  announce("gemm", x.size(0), linear.weight.out(), linear.weight.in(), dtype);
  const at::Tensor bias = bias_of(linear, pass);
  // A quantized product has no gradient for its bias.
  const bool apart = bias.defined() && linear.weight.is_quantized() && linear.trained_bias.defined();
  const std::optional<at::Tensor> added =
      bias.defined() && !apart ? std::optional<at::Tensor>(bias) : std::nullopt;
  at::Tensor y = reads_trained(linear, pass) ? at::linear(x.to(dtype), linear.trained_weight.to(dtype), added)
                                             : multiply(linear.weight, x.to(dtype), added);
  if (apart) y = y + bias;
  if (linear.frozen_lora) {
    y = y + at::linear(at::linear(x.to(dtype), linear.frozen_lora->a.dense()), linear.frozen_lora->b.dense());
  }
  if (!linear.lora || !pass.adapters_on) return y;
  const LoraWeights& side = *linear.lora;
  // PEFT drops in fp32, before the GEMM rounds.
  const at::Tensor input = pass.training && side.dropout > 0
                               ? apply_dropout(x, pass, side.dropout_key, side.dropout, dtype)
                               : x.to(dtype);
  if (side.magnitude.defined()) {
    base::require(!linear.frozen_lora, "ops::linear_forward", "no frozen side below DoRA");
    return dora_forward(linear, y, input, pass);
  }
  const at::Tensor lora_a_out = at::linear(input, side.a.to(dtype));  // [T, r]
  return y + at::linear(lora_a_out, side.b.to(dtype)) * side.scale;
}

}  // namespace hone::ops
