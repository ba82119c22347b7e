// The operators of row_kernels.h: rows of tensors distributed over threads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "ops/backend/cpu/cpu_operators.h"
#include "ops/backend/cpu/row_call.h"

namespace hone::ops::cpu {
namespace {

bool rows_alike(const Tensor& a, const Tensor& b, const Tensor& c) {
  return rows_fit({&a, &b, &c}) && a.scalar_type() == b.scalar_type() && a.scalar_type() == c.scalar_type();
}

template <typename Args>
void each_row(void (*kernel)(const Args&, std::int64_t, std::int64_t), const Args& args, std::int64_t rows,
              std::int64_t width) {
  over_rows(rows, width, [&](std::int64_t begin, std::int64_t end) { kernel(args, begin, end); });
}

bool heads_fit(const Tensor& out, const Tensor& x, const Tensor& norm_weight, const RopeTable& table) {
  return rows_fit({&out, &x, &table.cos, &table.sin}) && x.scalar_type() == out.scalar_type() &&
         table.cos.scalar_type() == table.sin.scalar_type() && x.size(2) <= kHeadDimMost &&
         (!norm_weight.defined() || rows_fit({&norm_weight}));
}

RotateArgs rotate_args(const Tensor& out, const Tensor& x, const Tensor& norm_weight, double eps,
                       const RopeTable& table) {
  return {.x = rows_in(x),
          .weight = norm_weight.defined() ? rows_in(norm_weight) : RowsIn{},
          .cos = rows_in(table.cos),
          .sin = rows_in(table.sin),
          .out = rows_out(out),
          .x_head = x.stride(1),
          .out_head = out.stride(1),
          .heads = out.size(1),
          .head_dim = out.size(2),
          .rotated = table.cos.size(1),
          .eps = static_cast<float>(eps)};
}

}  // namespace

bool rms_norm(const Tensor& out, const Tensor& x, const Tensor& weight, double eps) {
  if (!rows_fit({&out, &x, &weight})) return false;
  const NormArgs args = {.x = rows_in(x),
                         .weight = rows_in(weight),
                         .out = rows_out(out),
                         .width = x.size(1),
                         .eps = static_cast<float>(eps)};
  each_row(row_kernels().norm, args, x.size(0), x.size(1));
  return true;
}

bool rms_norm_backward(const Tensor& dx, const Tensor& dy, const Tensor& x, const Tensor& weight,
                       double eps) {
  if (!rows_fit({&dx, &dy, &x, &weight}) || dx.scalar_type() != x.scalar_type()) return false;
  const NormBackwardArgs args = {.x = rows_in(x),
                                 .weight = rows_in(weight),
                                 .dy = rows_in(dy),
                                 .dx = rows_out(dx),
                                 .width = x.size(1),
                                 .eps = static_cast<float>(eps)};
  each_row(row_kernels().norm_backward, args, x.size(0), x.size(1));
  return true;
}

bool norm_rope(const Tensor& out, const Tensor& x, const Tensor& norm_weight, double eps,
               const RopeTable& table) {
  if (!heads_fit(out, x, norm_weight, table)) return false;
  each_row(row_kernels().rotate, rotate_args(out, x, norm_weight, eps, table), x.size(0),
           x.size(1) * x.size(2));
  return true;
}

bool norm_rope_backward(const Tensor& d, const Tensor& x, const Tensor& norm_weight, double eps,
                        const RopeTable& table) {
  if (!heads_fit(d, x, norm_weight, table)) return false;
  each_row(row_kernels().rotate_backward, rotate_args(d, x, norm_weight, eps, table), d.size(0),
           d.size(1) * d.size(2));
  return true;
}

bool swiglu(const Tensor& out, const Tensor& gate, const Tensor& up, bool gelu_tanh) {
  if (!rows_alike(out, gate, up)) return false;
  const SwigluArgs args = {.gate = rows_in(gate),
                           .up = rows_in(up),
                           .out = rows_out(out),
                           .width = gate.size(1),
                           .gelu = gelu_tanh};
  each_row(row_kernels().swiglu, args, gate.size(0), gate.size(1));
  return true;
}

bool swiglu_backward(const Tensor& gate, const Tensor& up, const Tensor& d, bool gelu_tanh) {
  if (!rows_alike(gate, up, d)) return false;
  const SwigluBackwardArgs args = {
      .gate = rows_out(gate), .up = rows_out(up), .d = rows_in(d), .width = gate.size(1), .gelu = gelu_tanh};
  each_row(row_kernels().swiglu_backward, args, gate.size(0), gate.size(1));
  return true;
}

bool sigmoid_gate(const Tensor& out, const Tensor& x, const Tensor& gate) {
  if (!rows_alike(out, x, gate)) return false;
  const GateArgs args = {.x = rows_in(x), .gate = rows_in(gate), .out = rows_out(out), .width = x.size(1)};
  each_row(row_kernels().gate, args, x.size(0), x.size(1));
  return true;
}

bool sigmoid_gate_backward(const Tensor& gate, const Tensor& d, const Tensor& x) {
  if (!rows_alike(gate, d, x)) return false;
  const GateBackwardArgs args = {
      .x = rows_in(x), .gate = rows_out(gate), .d = rows_out(d), .width = x.size(1)};
  each_row(row_kernels().gate_backward, args, x.size(0), x.size(1));
  return true;
}

bool soft_cap(const Tensor& x, double cap) {
  if (!rows_fit({&x})) return false;
  const CapArgs args = {.x = {}, .out = rows_out(x), .width = x.size(1), .cap = static_cast<float>(cap)};
  each_row(row_kernels().cap, args, x.size(0), x.size(1));
  return true;
}

bool soft_cap_backward(const Tensor& d, const Tensor& capped, double cap) {
  if (!rows_fit({&d, &capped})) return false;
  const CapArgs args = {
      .x = rows_in(capped), .out = rows_out(d), .width = d.size(1), .cap = static_cast<float>(cap)};
  each_row(row_kernels().cap_backward, args, d.size(0), d.size(1));
  return true;
}

bool sum_routed_rows(const Tensor& out, const Tensor& rows, const Tensor& place, const Tensor& weights,
                     const Tensor& start) {
  const Tensor &other = start.defined() ? start : rows, &factors = weights.defined() ? weights : rows;
  if (!rows_fit({&out, &rows, &other, &factors}) || out.scalar_type() != rows.scalar_type() ||
      other.scalar_type() != rows.scalar_type()) {
    return false;
  }
  const Tensor held = place.contiguous();
  const GatherArgs args = {.rows = rows_in(rows),
                           .start = start.defined() ? rows_in(start) : RowsIn{},
                           .weights = weights.defined() ? rows_in(weights) : RowsIn{},
                           .place = held.const_data_ptr<std::int64_t>(),
                           .count = held.size(1),
                           .out = rows_out(out),
                           .width = rows.size(1)};
  each_row(row_kernels().gather, args, out.size(0), held.size(1) * rows.size(1));
  return true;
}

// In libtorch's operators, over blocks of rows: what is between them stays in a core's cache, and all threads share the blocks.
bool weigh_rows(const Tensor& out, const Tensor& x, const Tensor& weights) {
  constexpr std::int64_t kNumbers = 1 << 15;  // of a block: 128 KB in fp32
  const std::int64_t rows = x.size(0),
                     block = std::max<std::int64_t>(1, kNumbers / std::max<std::int64_t>(1, x.size(1)));
  at::parallel_for(0, (rows + block - 1) / block, 1, [&](std::int64_t begin, std::int64_t end) {
    const at::NoGradGuard no_grad;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * block, count = std::min(block, rows - first);
      out.narrow(0, first, count)
          .copy_(x.narrow(0, first, count) * weights.narrow(0, first, count).unsqueeze(1));
    }
  });
  return true;
}

bool weigh_rows_backward(const Tensor& d, const Tensor& x, const Tensor& weights, const Tensor& sums) {
  if (!rows_fit({&d, &x, &weights})) return false;
  const Tensor held = weights.contiguous();
  const WeighArgs args = {.x = rows_in(x),
                          .d = rows_out(d),
                          .weights = held.const_data_ptr<float>(),
                          .sums = sums.mutable_data_ptr<float>(),
                          .width = x.size(1)};
  each_row(row_kernels().weigh, args, x.size(0), x.size(1));
  return true;
}

}  // namespace hone::ops::cpu
