#include "ops/cases/case.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace hone::ops::cases {
namespace case_parts {

constexpr double kAround = 77;

// The last row alone, the others in one call from back to front, and back in their places.
Tensors cut(const std::function<Tensors(const Tensors&)>& run, const Tensors& rows) {
  const std::int64_t count = rows[0].size(0);
  const auto part = [&](const at::Tensor& ids) {
    Tensors some;
    for (const at::Tensor& x : rows) some.push_back(x.defined() ? x.index_select(0, ids) : x);
    return run(some);
  };
  const Tensors last = part(at::full({1}, count - 1, at::kLong));
  const at::Tensor others = at::arange(count - 1, at::kLong).flip(0);
  Tensors out = part(others);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = at::cat({out[i].flip(0), last[i]});
  return out;
}

Tensors called(const RowCase& c, const Tensors& rows, at::Device device) {
  std::vector<std::optional<Placed>> placed;
  Tensors views;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool dense = i >= c.dense_from || (rows[i].defined() && !rows[i].is_floating_point());
    placed.emplace_back();
    if (rows[i].defined()) placed.back().emplace(rows[i], device, dense ? Layout::kDense : c.layout);
    views.push_back(placed.back() ? placed.back()->view() : at::Tensor());
  }
  const Tensors returned = c.call(views, device);
  Tensors out;
  for (const std::size_t i : c.outputs) out.push_back(placed[i]->taken());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!placed[i] || std::find(c.outputs.begin(), c.outputs.end(), i) != c.outputs.end()) continue;
    if (!at::equal(placed[i]->taken(), rows[i])) throw std::runtime_error("an input was written");
  }
  for (const at::Tensor& x : returned) out.push_back(x.cpu());
  return out;
}

}  // namespace case_parts

std::string describe(at::ScalarType dtype) {
  return dtype == at::kBFloat16 ? "bf16" : dtype == at::kFloat ? "fp32" : "fp64";
}

std::string describe(Layout layout) {
  return layout == Layout::kDense ? "dense" : layout == Layout::kStrided ? "strided" : "unaligned";
}

std::string describe(const Grid& grid) {
  return std::to_string(grid.rows) + " x " + std::to_string(grid.width) + ", " + describe(grid.layout);
}

at::Tensor noise(at::IntArrayRef shape, std::uint64_t seed, at::ScalarType dtype) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kFloat).to(dtype);
}

at::Tensor wide(const at::Tensor& x) {
  return x.defined() && x.is_floating_point() ? x.to(at::kDouble) : x;
}

at::Tensor unwritten(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::full(shape, std::nan(""), dtype);
}

Tensors gradients(const std::function<at::Tensor(const Tensors&)>& f, const Tensors& leaves,
                  const at::Tensor& d) {
  Tensors own;
  for (const at::Tensor& x : leaves)
    own.push_back(x.defined() ? x.detach().to(at::kDouble).clone().requires_grad_() : x);
  Tensors wanted;
  for (const at::Tensor& x : own) {
    if (x.defined()) wanted.push_back(x);
  }
  return torch::autograd::grad({f(own)}, wanted, {d.to(at::kDouble)});
}

double bound_of(at::ScalarType dtype, double of_float, double of_bf16) {
  return dtype == at::kBFloat16 ? of_bf16 : dtype == at::kFloat ? of_float : 1e-11;
}

Placed::Placed(const at::Tensor& x, at::Device device, Layout layout) {
  const at::Tensor flat = x.dim() > 1 ? x.flatten(1) : x;
  const std::int64_t numbers = x.numel();
  if (layout == Layout::kDense) {
    view_ = x.to(device, x.scalar_type(), false, /*copy=*/true).contiguous();
    return;
  }
  const bool strided = layout == Layout::kStrided && flat.dim() == 2;
  const at::Tensor buffer = strided
                                ? at::full({flat.size(0), flat.size(1) + 5}, case_parts::kAround, x.options())
                                : at::full({numbers + 2}, case_parts::kAround, x.options());
  const auto inside = [&](const at::Tensor& of) {
    return strided ? of.narrow(1, 3, flat.size(1)) : of.narrow(0, 1, numbers);
  };
  inside(buffer).copy_(strided ? flat : flat.reshape({-1}));
  buffer_ = buffer.to(device, buffer.scalar_type(), false, /*copy=*/true);
  around_ = at::ones_like(buffer, at::kBool);
  inside(around_).fill_(false);
  view_ = strided && x.dim() == 2 ? inside(buffer_)
          : strided               ? inside(buffer_).unflatten(1, x.sizes().slice(1))
                                  : inside(buffer_).view(x.sizes());
}

at::Tensor Placed::taken() const {
  if (buffer_.defined()) {
    const at::Tensor written = buffer_.cpu().ne(case_parts::kAround).logical_and(around_);
    if (written.any().item<bool>()) throw std::runtime_error("what lies around a tensor was written");
  }
  return view_.cpu().clone();
}

Case of_rows(RowCase rows) {
  const auto c = std::make_shared<const RowCase>(std::move(rows));
  Case out{.op = c->op, .what = c->what, .bounds = c->bounds};
  out.run = [c](at::Device device) { return case_parts::called(*c, c->make(), device); };
  out.exact = [c] {
    Tensors in;
    for (const at::Tensor& x : c->make()) in.push_back(wide(x));
    return c->exact(in);
  };
  if (!c->promises) return out;
  out.own_bits_from = base::InstructionLevel::kPlain;
  out.levels = SameBits::kAllLevels;
  out.otherwise = [c](at::Device device) {
    const Tensors in = c->make();
    if (in[0].size(0) < 2) return Tensors();
    return case_parts::cut([&](const Tensors& some) { return case_parts::called(*c, some, device); }, in);
  };
  return out;
}

const std::vector<Grid>& row_grid() {
  static const std::vector<Grid> all = {
      {0, 64, Layout::kDense},    {1, 896, Layout::kDense},     {1, 1, Layout::kUnaligned},
      {2, 7, Layout::kUnaligned}, {7, 33, Layout::kStrided},    {64, 1024, Layout::kDense},
      {33, 64, Layout::kStrided}, {257, 896, Layout::kStrided}, {3, 4096, Layout::kUnaligned},
      {4096, 31, Layout::kDense}, {5, 4864, Layout::kStrided},  {2, 2048, Layout::kDense}};
  return all;
}

const std::vector<Grid>& few_rows() {
  static const std::vector<Grid> all = {
      {1, 896, Layout::kUnaligned}, {7, 33, Layout::kStrided}, {64, 1024, Layout::kDense}};
  return all;
}

const Cases& all_cases() {
  static const Cases all = [] {
    Cases list;
    for (const auto add : {add_norm_cases,
                           add_rope_cases,
                           add_gate_cases,
                           add_routed_cases,
                           add_scattered_cases,
                           add_gathered_cases,
                           add_block_cases,
                           add_dropout_cases,
                           add_conv_cases,
                           add_delta_cases,
                           add_attention_cases,
                           add_packed_attention_cases,
                           add_attention_backward_cases,
                           add_join_cases,
                           add_gemm_cases,
                           add_outer_cases,
                           add_expert_cases,
                           add_quantized_cases,
                           add_softmax_cases,
                           add_adamw_cases,
                           add_lion_cases})
      add(list);
    return list;
  }();
  return all;
}

}  // namespace hone::ops::cases
