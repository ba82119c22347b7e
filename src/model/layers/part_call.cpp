#include "model/layers/part_call.h"

#include <ATen/ATen.h>

#include <utility>

#include "ops/fused_linear.h"
#include "ops/join/join.h"
#include "ops/rms_norm.h"

namespace hone::model {

at::Tensor PartCall::read(const at::Tensor& stream, NormPlace place,
                          std::span<const ops::Linear> readers) const {
  if (!norms[place].defined()) return stream.to(dtype);
  const auto options = stream.options().dtype(dtype);
  at::Tensor out = readers.empty() ? at::empty(stream.sizes(), options)
                                   : ops::input_rows(readers, stream.size(0), options);
  ops::rms_norm_into(out, stream, norms[place], pass.config.rms_norm_eps);
  return out;
}

void PartCall::lora_a_forwards(std::span<const ops::Linear> linears, const at::Tensor& x,
                               std::vector<at::Tensor>& all) const {
  std::vector<const ops::Linear*> pointers;
  for (const ops::Linear& linear : linears) pointers.push_back(&linear);
  for (at::Tensor& found : ops::lora_a_forwards(pointers, x, pass.context)) all.push_back(std::move(found));
}

at::Tensor PartCall::multiply(std::span<const ops::Linear> linears, const at::Tensor& x,
                              const std::vector<at::Tensor>& all, std::size_t first) const {
  at::Tensor concat = ops::output_rows(linears, x.size(0), x.options());
  std::vector<ops::LinearOutput> outputs;
  std::int64_t column = 0;
  for (const ops::Linear& linear : linears) {
    outputs.push_back({concat.narrow(1, column, linear.weight.out()), &linear, all[first++]});
    column += linear.weight.out();
  }
  ops::linears_into(outputs, x, pass.context);
  return concat;
}

at::Tensor PartCall::add_linear(const at::Tensor& stream, const ops::Linear& linear, const at::Tensor& x,
                                const at::Tensor& lora_a_out, NormPlace norm_after,
                                at::Tensor* branch) const {
  if (!norms[norm_after].defined() && pass.config.residual_scale == 1) {
    at::Tensor out = onto_stream ? stream : at::empty_like(stream);
    ops::linear_into(out, linear, x, lora_a_out, pass.context, stream);
    return out;
  }
  at::Tensor out = at::empty({x.size(0), linear.weight.out()}, x.options());
  ops::linear_into(out, linear, x, lora_a_out, pass.context);
  return add_branch(stream, out, norm_after, branch);
}

at::Tensor PartCall::add_branch(const at::Tensor& stream, at::Tensor out, NormPlace norm_after,
                                at::Tensor* branch) const {
  if (const at::Tensor& weight = norms[norm_after]; weight.defined()) {
    if (branch != nullptr) *branch = out;
    at::Tensor normed = at::empty(out.sizes(), out.options().dtype(dtype));
    ops::rms_norm_into(normed, out, weight, pass.config.rms_norm_eps);
    out = normed;
  }
  // two roundings, as in the autograd form
  if (pass.config.residual_scale != 1) out = out * pass.config.residual_scale;
  return stream + out;
}

at::Tensor PartCall::linear_gradient(const at::Tensor& d, NormPlace norm_after, const at::Tensor& branch,
                                     const ops::Linear* linear) const {
  at::Tensor cast = pass.cast == nullptr ? at::Tensor() : std::exchange(*pass.cast, {});
  const double scale = pass.config.residual_scale, eps = pass.config.rms_norm_eps;
  const at::Tensor scaled = scale == 1 ? d : d * scale;
  const at::Tensor& weight = norms[norm_after];
  if (!weight.defined()) {
    if (cast.defined() && scaled.is_same(d)) return cast;
    if (linear == nullptr || scaled.scalar_type() == dtype) return scaled.to(dtype);
    at::Tensor out = ops::output_rows({linear, 1}, d.size(0), d.options().dtype(dtype));
    return out.copy_(scaled);
  }
  if (const at::Tensor& trained = layer.trained[norm_after]; trained.defined())
    ops::rms_norm_weight_gradient(trained.grad(), scaled, branch, eps);
  at::Tensor out = at::zeros_like(branch);
  ops::rms_norm_backward_add(out, scaled, branch, weight, eps);
  return out;
}

at::Tensor PartCall::linears_gradient(std::span<const ops::Linear> linears,
                                      const std::vector<at::Tensor>& all, std::size_t first,
                                      const at::Tensor& d_out, const at::Tensor& x, bool wanted) const {
  std::vector<ops::LinearGradient> gradients;
  std::int64_t column = 0;
  for (const ops::Linear& linear : linears) {
    gradients.push_back({&linear, d_out.narrow(1, column, linear.weight.out()), all[first++]});
    column += linear.weight.out();
  }
  at::Tensor dx = wanted ? at::empty(x.sizes(), x.options()) : at::Tensor();
  ops::linears_backward(dx, gradients, x, pass.context);
  return dx;
}

void PartCall::read_backward(at::Tensor& d, const at::Tensor& d_read, const at::Tensor& stream,
                             NormPlace place) const {
  const double eps = pass.config.rms_norm_eps;
  if (const at::Tensor& trained = layer.trained[place]; trained.defined())
    ops::rms_norm_weight_gradient(trained.grad(), d_read, stream, eps);
  if (!input_gradient) return;
  if (!norms[place].defined()) {
    d.add_(d_read);
  } else if (next != nullptr && pass.cast != nullptr && d.scalar_type() != dtype) {
    *pass.cast = ops::output_rows({next, 1}, d.size(0), d.options().dtype(dtype));
    ops::rms_norm_backward_add(d, d_read, stream, norms[place], eps, *pass.cast);
  } else {
    ops::rms_norm_backward_add(d, d_read, stream, norms[place], eps);
  }
}

}  // namespace hone::model
