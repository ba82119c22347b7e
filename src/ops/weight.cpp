#include "ops/weight.h"

#include <ATen/ATen.h>

#include <vector>

#include "base/error.h"
#include "ops/backend/layouts.h"
#include "ops/backend/operators.h"
#include "ops/routed_rows.h"

namespace hone::ops {
namespace {

const backend::WeightLayout* layout_for(const at::Tensor& plain) {
  const backend::WeightLayout* const layout = backend::operators_of(plain.device()).weights;
  return layout != nullptr && plain.dim() == 2 && plain.numel() > 0 && layout->fits(plain) ? layout : nullptr;
}

std::vector<std::int64_t> checked_ids(const at::Tensor& ids, std::int64_t rows) {
  base::require(ids.dim() == 1 && ids.scalar_type() == at::kLong, "ops::Weight::rows", "ids [n] int64");
  const at::Tensor contiguous = ids.contiguous();
  const std::int64_t* const id = contiguous.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> out(id, id + ids.size(0));
  for (const std::int64_t one : out)
    base::require(one >= 0 && one < rows, "ops::Weight::rows", "ids of the matrix's rows");
  return out;
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
  return layout_for(plain) != nullptr;
}

Weight Weight::packed_where_possible(const at::Tensor& plain) {
  const backend::WeightLayout* const layout = layout_for(plain);
  if (layout == nullptr) return {plain};
  Weight packed;
  packed.out_ = plain.size(0);
  packed.in_ = plain.size(1);
  packed.layout_ = layout;
  packed.packed_ = layout->pack(plain.size(1) > 1 && plain.stride(1) != 1 ? plain.contiguous() : plain);
  return packed;
}

Weight Weight::quantized(std::shared_ptr<const Quantized> matrix, at::ScalarType compute) {
  base::require(matrix != nullptr && (compute == at::kFloat || compute == at::kBFloat16),
                "ops::Weight::quantized", "a matrix, and bf16 or float32 to multiply in");
  const backend::CodeLayout* const layout = backend::operators_of(matrix->codes.device()).codes;
  if (layout != nullptr && matrix->layout == nullptr && layout->fits(*matrix, compute))
    matrix = std::make_shared<const Quantized>(layout->arrange(*matrix));
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
  return (is_packed() ? packed_ : plain()).scalar_type();
}

at::Device Weight::device() const {
  if (is_quantized()) return quantized_->codes.device();
  if (!has_numbers()) return device_;
  return is_packed() ? packed_.device() : plain().device();
}

std::int64_t Weight::bytes() const {
  if (is_quantized()) return quantized_->bytes();
  if (!has_numbers()) return 0;
  return static_cast<std::int64_t>(is_packed() ? packed_.nbytes() : plain().nbytes());
}

const at::Tensor& Weight::plain() const {
  base::require(plain_.defined(), "ops::Weight", "a plain matrix");
  return plain_;
}

at::Tensor Weight::dense() const {
  if (is_quantized()) {
    const at::Tensor all = dequantize(*quantized_, compute_);
    return all.size(0) == out_ ? all : all.narrow(0, first_row_, out_);
  }
  return is_packed() ? layout_->dense(packed_, out_, in_) : plain();
}

Weight Weight::slice(std::int64_t begin, std::int64_t end) const {
  base::require(begin % kSliceRows == 0 && (end % kSliceRows == 0 || end == out_) && begin >= 0 &&
                    begin <= end && end <= out_,
                "ops::Weight::slice", "whole groups of kSliceRows");
  if (is_quantized()) {
    base::require(quantized_->layout != nullptr, "ops::Weight::slice",
                  "a quantized matrix in its backend's order");
    Weight part = *this;
    part.first_row_ += begin;
    part.out_ = end - begin;
    return part;
  }
  if (!is_packed()) return {plain().narrow(0, begin, end - begin)};
  Weight part = *this;
  part.packed_ = layout_->slice(packed_, out_, begin, end);
  part.out_ = end - begin;
  return part;
}

at::Tensor Weight::rows(const at::Tensor& ids) const {
  if (!is_packed() && !is_quantized()) return gather_rows(plain(), ids, dtype());
  std::vector<std::int64_t> places = checked_ids(ids, out_);
  if (is_packed()) return layout_->rows(packed_, in_, places);
  base::require(quantized_->layout != nullptr, "ops::Weight::rows",
                "a quantized matrix in its backend's order");
  for (std::int64_t& place : places) place += first_row_;
  return quantized_->layout->rows(*quantized_, places, compute_);
}

void Weight::assign(const at::Tensor& plain) {
  base::require(!is_quantized() && defined(), "ops::Weight::assign", "a plain or packed matrix");
  base::require(plain.dim() == 2 && plain.size(0) == out_ && plain.size(1) == in_ &&
                    plain.scalar_type() == dtype() && (!is_packed() || layout_->fits(plain)),
                "ops::Weight::assign", "numbers of the matrix's shape, dtype and device");
  if (is_packed()) {
    packed_.copy_(layout_->pack(plain.contiguous()));
  } else {
    plain_.copy_(plain);
  }
}

std::vector<std::pair<std::string, at::Tensor>> Weight::memory() const {
  if (!has_numbers()) return {};
  if (is_packed()) return {{"", packed_}};
  if (!is_quantized()) return {{"", plain()}};
  std::vector<std::pair<std::string, at::Tensor>> out = {{"'s codes", quantized_->codes},
                                                         {"'s scales", quantized_->scales}};
  if (quantized_->nested_scales.defined()) out.emplace_back("'s scales of scales", quantized_->nested_scales);
  return out;
}

}  // namespace hone::ops
