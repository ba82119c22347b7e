#include "ops/weight.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstring>

#include "base/error.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/instructions.h"

namespace hone::ops {
namespace {

// Numbers from one panel to the next.
std::int64_t panel_size(std::int64_t in) {
  return (in + 1) / 2 * kernels::kPairStep;
}

std::int64_t panels_of(std::int64_t out) {
  return (out + kPanelRows - 1) / kPanelRows;
}

const kernels::Bf16* bits(const at::Tensor& x) {
  return reinterpret_cast<const kernels::Bf16*>(x.const_data_ptr());
}

kernels::Bf16* mutable_bits(const at::Tensor& x) {
  return reinterpret_cast<kernels::Bf16*>(x.mutable_data_ptr());
}

// Every second pair of a panel's row: 4 bytes of each 128.
void copy_row(const kernels::Bf16* panels, std::int64_t in, std::int64_t row, kernels::Bf16* to) {
  const kernels::Bf16* from = panels + row / kPanelRows * panel_size(in) + row % kPanelRows * 2;
  for (std::int64_t k = 0; k + 1 < in; k += 2) std::memcpy(to + k, from + k / 2 * kernels::kPairStep, 4);
  if (in % 2 != 0) to[in - 1] = from[in / 2 * kernels::kPairStep];
}

}  // namespace

Weight::Weight(at::Tensor plain) : plain_(std::move(plain)) {
  if (!plain_.defined()) return;
  base::require(plain_.dim() == 2, "ops::Weight", "a matrix");
  base::require(plain_.size(1) <= 1 || plain_.stride(1) == 1, "ops::Weight", "rows of neighboring elements");
  out_ = plain_.size(0);
  in_ = plain_.size(1);
}

bool Weight::can_pack(const at::Tensor& plain) {
  return instructions() == Instructions::kAvx512Bf16 && plain.device().is_cpu() && plain.dim() == 2 &&
         plain.scalar_type() == at::kBFloat16 && plain.numel() > 0;
}

Weight Weight::pack(const at::Tensor& plain) {
  base::require(can_pack(plain), "ops::Weight::pack", "a bf16 matrix and a CPU with avx512_bf16");
  const Weight rows(plain.size(1) > 1 && plain.stride(1) != 1 ? plain.contiguous() : plain);
  Weight packed;
  packed.out_ = rows.out_;
  packed.in_ = rows.in_;
  const std::int64_t count = panels_of(packed.out_);
  const std::int64_t size = panel_size(packed.in_);
  packed.panels_ = at::empty({count * size}, plain.options());
  const kernels::Bf16* from = bits(rows.plain_);
  kernels::Bf16* to = mutable_bits(packed.panels_);
  const std::int64_t stride = rows.plain_.stride(0);
  at::parallel_for(0, count, 1 + (1 << 18) / size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t first = panel * kPanelRows;
      const std::int64_t n = std::min(kPanelRows, packed.out_ - first);
      if (n < kPanelRows) std::memset(to + panel * size, 0, static_cast<std::size_t>(size) * sizeof(*to));
      kernels::pack_rows(from + first * stride, stride, n, packed.in_, to + panel * size);
    }
  });
  return packed;
}

Weight Weight::packed_where_possible(const at::Tensor& plain) {
  return can_pack(plain) ? pack(plain) : Weight(plain);
}

Weight Weight::quantized(std::shared_ptr<const Quantized> matrix, at::ScalarType compute) {
  base::require(matrix != nullptr && (compute == at::kFloat || compute == at::kBFloat16),
                "ops::Weight::quantized", "a matrix, and bf16 or float32 to multiply in");
  Weight out;
  out.out_ = matrix->out;
  out.in_ = matrix->in;
  out.quantized_ = std::move(matrix);
  out.compute_ = compute;
  return out;
}

const Quantized& Weight::quantized() const {
  base::require(is_quantized(), "ops::Weight", "a quantized matrix");
  return *quantized_;
}

at::ScalarType Weight::dtype() const {
  if (is_quantized()) return compute_;
  return is_packed() ? at::kBFloat16 : plain().scalar_type();
}

at::Device Weight::device() const {
  if (is_quantized()) return quantized_->codes.device();
  return is_packed() ? panels_.device() : plain().device();
}

std::int64_t Weight::bytes() const {
  if (is_quantized()) return quantized_->bytes();
  return static_cast<std::int64_t>(is_packed() ? panels_.nbytes() : plain().nbytes());
}

const at::Tensor& Weight::plain() const {
  base::require(plain_.defined(), "ops::Weight", "a plain matrix");
  return plain_;
}

const at::Tensor& Weight::panels() const {
  base::require(panels_.defined(), "ops::Weight", "a packed matrix");
  return panels_;
}

at::Tensor Weight::dense() const {
  if (is_quantized()) return dequantize(*quantized_, compute_);
  if (!is_packed()) return plain();
  const at::Tensor panels = panels_.view({panels_of(out_), (in_ + 1) / 2, kPanelRows, 2});
  const at::Tensor padded = panels.transpose(1, 2).reshape({panels_of(out_) * kPanelRows, (in_ + 1) / 2 * 2});
  return padded.narrow(0, 0, out_).narrow(1, 0, in_).contiguous();
}

Weight Weight::slice(std::int64_t begin, std::int64_t end) const {
  base::require(begin % kPanelRows == 0 && (end % kPanelRows == 0 || end == out_) && begin >= 0 &&
                    begin <= end && end <= out_,
                "ops::Weight::slice", "whole panels");
  if (!is_packed()) return {plain().narrow(0, begin, end - begin)};
  const std::int64_t panel = kPanelRows * ((in_ + 1) / 2 * 2);
  const std::int64_t first = begin / kPanelRows, last = (end + kPanelRows - 1) / kPanelRows;
  Weight part;
  part.panels_ = panels_.narrow(0, first * panel, (last - first) * panel);
  part.out_ = end - begin;
  part.in_ = in_;
  return part;
}

at::Tensor Weight::rows(const at::Tensor& ids) const {
  if (!is_packed()) return at::embedding(plain(), ids);
  base::require(ids.dim() == 1 && ids.scalar_type() == at::kLong, "ops::Weight::rows", "ids [n] int64");
  const at::Tensor contiguous = ids.contiguous();
  const std::int64_t* id = contiguous.const_data_ptr<std::int64_t>();
  const std::int64_t n = ids.size(0);
  for (std::int64_t i = 0; i < n; ++i) {
    base::require(id[i] >= 0 && id[i] < out_, "ops::Weight::rows", "ids of the matrix's rows");
  }
  at::Tensor rows = at::empty({n, in_}, panels_.options());
  kernels::Bf16* to = mutable_bits(rows);
  at::parallel_for(0, n, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) copy_row(bits(panels_), in_, id[i], to + i * in_);
  });
  return rows;
}

}  // namespace hone::ops
