// Rows that are looked up or added up by an index. Most are rows by expert, of a layer whose tokens go through some experts each: sums by
// token, and the gradients of a router's weights.
//
// Shapes: T tokens, k experts of each, S = T k rows by expert, W columns.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>

namespace hone::ops {

// start + the sum over s of weights[t, s] rows[place[t, s]], as below, [T, W] fp32 (fp64 of fp64). Differentiable in all but place.
at::Tensor routed_sum(const at::Tensor& rows, const at::Tensor& place, const at::Tensor& weights,
                      const at::Tensor& start = {});

// ---- the fused forms

// out [T, W] = start + the sum over s of weights[t, s] rows[place[t, s]], in fp32 in this order, rounded once. rows [S, W]; place
// [T, k] int64; weights [T, k] or undefined, and a product is rounded to the wider dtype of both first; start [T, W] or
// undefined. out, rows and start are of one dtype.
void sum_routed_rows(at::Tensor out, const at::Tensor& rows, const at::Tensor& place,
                     const at::Tensor& weights, const at::Tensor& start = {});

// out [S, W] = weights x by rows, rounded once to out's dtype. x [S, W] of out's dtype, weights [S] fp32.
void weigh_rows(at::Tensor out, const at::Tensor& x, const at::Tensor& weights);

// y = weights x by rows. Given d, the gradient of y, [S, W] of x's dtype: returns that of weights, [S] fp32, each a sum over a
// row in fp32; d becomes that of x, in place. x [S, W], weights [S] fp32.
at::Tensor weigh_rows_backward(at::Tensor d, const at::Tensor& x, const at::Tensor& weights);

// ---- rows that are looked up

// The rows `ids` of table [V, W], [T, W] in `dtype`. ids [T] int64 on the table's device; the caller has checked that they are
// rows of it. Not differentiable.
at::Tensor gather_rows(const at::Tensor& table, const at::Tensor& ids, at::ScalarType dtype);

// ---- gradients of rows that were looked up, which meet where a row was looked up again

// out[rows[i]] += d[from[i]] for i = 0, 1, ..., in fp32 and in this order, on every device: a second run has the same bits. out
// [V, W] fp32; d [T, W] of any float dtype; from empty: i.
void add_rows(at::Tensor out, const at::Tensor& d, std::span<const std::int64_t> rows,
              std::span<const std::int64_t> from = {});

// ---- many matrices copied, or added, to others: what a device that pays for each call does in a few

// out [rows, columns] = x, in out's dtype, or out += x with `add`. x has out's shape and device; rows may be strided.
struct BlockCopy {
  at::Tensor out, x;
  bool add = false;
};

// In no order: none reads or writes what another one writes.
void copy_blocks(std::span<const BlockCopy> all);

// True where many blocks are one call on this device; elsewhere callers need not gather them.
bool copies_blocks(at::Device device);

}  // namespace hone::ops
