#include "ops/weight.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "ops/cpu/gemm_blocks.h"
#include "ops/quantized_panels.h"

namespace hone::ops {
namespace {

using kernels::kPanelWide;
using kernels::Word;

// Words from one panel to the next.
std::int64_t panel_words(std::int64_t in, bool is_float) {
  return kernels::words_of(in, is_float) * kPanelWide;
}

std::int64_t panels_of(std::int64_t out) {
  return (out + kPanelRows - 1) / kPanelRows;
}

// Every 32nd word of a panel: 4 bytes of each 128.
void copy_row(const Word* panels, std::int64_t in, bool is_float, std::int64_t row, void* to) {
  const Word* from = panels + row / kPanelRows * panel_words(in, is_float) + row % kPanelRows;
  const std::int64_t whole = is_float ? in : in / 2;
  auto* const words = static_cast<char*>(to);
  for (std::int64_t word = 0; word < whole; ++word)
    std::memcpy(words + 4 * word, from + word * kPanelWide, 4);
  if (!is_float && in % 2 != 0) std::memcpy(words + 4 * whole, from + whole * kPanelWide, 2);
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
  return plain.device().is_cpu() && plain.dim() == 2 && plain.numel() > 0 &&
         gemm_kernels(plain.scalar_type()) != nullptr;
}

Weight Weight::pack(const at::Tensor& plain) {
  base::require(can_pack(plain), "ops::Weight::pack", "a matrix of bf16 or float32 and a CPU with avx2");
  const Weight rows(plain.size(1) > 1 && plain.stride(1) != 1 ? plain.contiguous() : plain);
  Weight packed;
  packed.out_ = rows.out_;
  packed.in_ = rows.in_;
  const bool is_float = plain.scalar_type() == at::kFloat;
  const std::int64_t count = panels_of(packed.out_);
  const std::int64_t size = panel_words(packed.in_, is_float);
  packed.panels_ = at::empty({count * size * (is_float ? 1 : 2)}, plain.options());
  const auto* from = static_cast<const char*>(rows.plain_.const_data_ptr());
  auto* const to = static_cast<Word*>(packed.panels_.mutable_data_ptr());
  const std::int64_t stride = rows.plain_.stride(0);
  const std::int64_t halves = is_float ? 2 : 1;  // 16 bits of a number
  auto* const pack_rows = gemm_kernels(plain.scalar_type())->pack_rows;
  at::parallel_for(0, count, 1 + (1 << 17) / size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t first = panel * kPanelRows;
      const std::int64_t n = std::min(kPanelRows, packed.out_ - first);
      if (n < kPanelRows) std::memset(to + panel * size, 0, static_cast<std::size_t>(size) * sizeof(*to));
      const void* const w = from + first * stride * halves * 2;
      pack_rows(static_cast<const kernels::Bf16*>(w), halves * stride, n, halves * packed.in_,
                to + panel * size);
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
  const bool has_kernels = matrix->codes.device().is_cpu() && gemm_kernels(compute) != nullptr;
  if (has_kernels && fits_panels(*matrix)) matrix = std::make_shared<const Quantized>(in_panels(*matrix));
  Weight out;
  out.out_ = matrix->out;
  out.in_ = matrix->in;
  out.quantized_ = std::move(matrix);
  out.compute_ = compute;
  return out;
}

Weight Weight::without_numbers(std::int64_t out, std::int64_t in, at::ScalarType dtype, at::Device device) {
  Weight shape;
  shape.out_ = out;
  shape.in_ = in;
  shape.compute_ = dtype;
  shape.device_ = device;
  return shape;
}

const Quantized& Weight::quantized() const {
  base::require(is_quantized(), "ops::Weight", "a quantized matrix");
  return *quantized_;
}

at::ScalarType Weight::dtype() const {
  if (is_quantized() || !has_numbers()) return compute_;
  return (is_packed() ? panels_ : plain()).scalar_type();
}

at::Device Weight::device() const {
  if (is_quantized()) return quantized_->codes.device();
  if (!has_numbers()) return device_;
  return is_packed() ? panels_.device() : plain().device();
}

std::int64_t Weight::bytes() const {
  if (is_quantized()) return quantized_->bytes();
  if (!has_numbers()) return 0;
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
  if (is_quantized()) {
    const at::Tensor all = dequantize(*quantized_, compute_);
    return all.size(0) == out_ ? all : all.narrow(0, first_panel_ * kPanelRows, out_);
  }
  if (!is_packed()) return plain();
  const std::int64_t numbers = dtype() == at::kFloat ? 1 : 2;  // of a word
  const std::int64_t words = kernels::words_of(in_, dtype() == at::kFloat);
  const at::Tensor panels = panels_.view({panels_of(out_), words, kPanelRows, numbers});
  const at::Tensor padded = panels.transpose(1, 2).reshape({panels_of(out_) * kPanelRows, words * numbers});
  return padded.narrow(0, 0, out_).narrow(1, 0, in_).contiguous();
}

Weight Weight::slice(std::int64_t begin, std::int64_t end) const {
  base::require(begin % kPanelRows == 0 && (end % kPanelRows == 0 || end == out_) && begin >= 0 &&
                    begin <= end && end <= out_,
                "ops::Weight::slice", "whole panels");
  if (is_quantized()) {
    base::require(quantized_->in_panels, "ops::Weight::slice", "a quantized matrix in panels");
    Weight part = *this;
    part.first_panel_ += begin / kPanelRows;
    part.out_ = end - begin;
    return part;
  }
  if (!is_packed()) return {plain().narrow(0, begin, end - begin)};
  const std::int64_t panel = panels_.numel() / panels_of(out_);
  const std::int64_t first = begin / kPanelRows, last = (end + kPanelRows - 1) / kPanelRows;
  Weight part;
  part.panels_ = panels_.narrow(0, first * panel, (last - first) * panel);
  part.out_ = end - begin;
  part.in_ = in_;
  return part;
}

at::Tensor Weight::rows(const at::Tensor& ids) const {
  if (!is_packed() && !is_quantized()) return at::embedding(plain(), ids);
  base::require(ids.dim() == 1 && ids.scalar_type() == at::kLong, "ops::Weight::rows", "ids [n] int64");
  const at::Tensor contiguous = ids.contiguous();
  const std::int64_t* id = contiguous.const_data_ptr<std::int64_t>();
  const std::int64_t n = ids.size(0);
  for (std::int64_t i = 0; i < n; ++i) {
    base::require(id[i] >= 0 && id[i] < out_, "ops::Weight::rows", "ids of the matrix's rows");
  }
  if (is_quantized()) {
    const std::int64_t first = first_panel_ * kPanelRows;
    std::vector<std::int64_t> places(id, id + n);
    for (std::int64_t& place : places) place += first;
    return dequantize_panel_rows(*quantized_, places, compute_);
  }
  at::Tensor rows = at::empty({n, in_}, panels_.options());
  const bool is_float = dtype() == at::kFloat;
  const auto* const from = static_cast<const Word*>(panels_.const_data_ptr());
  auto* const to = static_cast<char*>(rows.mutable_data_ptr());
  const std::int64_t bytes = in_ * (is_float ? 4 : 2);
  at::parallel_for(0, n, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) copy_row(from, in_, is_float, id[i], to + i * bytes);
  });
  return rows;
}

}  // namespace hone::ops
