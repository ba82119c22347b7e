// Rows by expert. libtorch multiplies groups of bf16 rows in one call (_grouped_mm) on cards of compute capability 9 and 10;
// on others it waits for the groups' sizes, so that the experts are multiplied apart there.
#include <ATen/ATen.h>

#include <algorithm>

#include "ops/backend/cuda/cuda_operators.h"
#include "ops/machine/cuda.h"

namespace hone::ops::cuda {
namespace {

constexpr std::int64_t kOfGroups = 8;          // 16 bytes
constexpr std::int64_t kRowsOfWeights = 8192;  // at a time: what is between the operators stays small

bool card_has_kernel(at::Device device) {
  if (!device.is_cuda()) return true;  // any other device that has the operator
  const std::vector<CudaCard>& cards = load_cuda().driver.cards;
  const auto index = static_cast<std::size_t>(device.has_index() ? device.index() : 0);
  const std::int64_t major = index < cards.size() ? cards[index].capability / 10 : 0;
  return major == 9 || major == 10;
}

// Rows, or columns, of neighboring elements that begin at 16 bytes.
bool is_aligned(const Tensor& x) {
  const std::int64_t rows = x.stride(-2), columns = x.stride(-1);
  return x.scalar_type() == at::kBFloat16 && x.storage_offset() % kOfGroups == 0 &&
         ((columns == 1 && rows % kOfGroups == 0 && rows >= x.size(-1)) ||
          (rows == 1 && columns % kOfGroups == 0 && columns >= x.size(-2)));
}

}  // namespace

std::int64_t group_multiple(at::Device device, at::ScalarType dtype) {
  return dtype == at::kBFloat16 && card_has_kernel(device) ? kOfGroups : 0;
}

bool grouped_products(Tensor& out, const Tensor& a, const Tensor& right, const Tensor& ends) {
  if (!is_aligned(a) || !is_aligned(right) || !card_has_kernel(a.device())) return false;
  out = at::_grouped_mm(a, right, ends);
  return true;
}

// Rounded to bf16, which is the kernel's only result. By its columns left^T takes groups of any size, and none.
bool grouped_outers(Tensor& out, const Tensor& left, const Tensor& right, const Tensor& ends) {
  if (!is_aligned(left) || !is_aligned(right) || left.stride(1) != 1 || right.stride(1) != 1 ||
      !card_has_kernel(left.device()))
    return false;
  out = at::_grouped_mm(left.t(), right, ends);
  return true;
}

// The rows of some tokens at a time, all of a token's beside each other.
bool sum_routed_rows(const Tensor& out, const Tensor& rows, const Tensor& place, const Tensor& weights,
                     const Tensor& start) {
  constexpr std::int64_t kAtOnce = 1 << 26;  // numbers of those rows
  if (rows.scalar_type() == at::kDouble) return false;
  const std::int64_t width = rows.size(1), each = place.size(1);
  const std::int64_t tokens = std::max<std::int64_t>(1, kAtOnce / std::max<std::int64_t>(1, each * width));
  for (std::int64_t first = 0; first < out.size(0); first += tokens) {
    const std::int64_t count = std::min(tokens, out.size(0) - first);
    const auto part = [&](const Tensor& x) { return x.narrow(0, first, count); };
    Tensor terms = rows.index_select(0, part(place).flatten()).view({count, each, width}), into = part(out);
    if (weights.defined()) terms = terms * part(weights).unsqueeze(2);
    if (start.defined()) {
      at::add_out(into, at::sum(terms, {1}, false, at::kFloat), part(start));
    } else if (terms.scalar_type() == out.scalar_type()) {
      at::sum_out(into, terms, {1});
    } else {
      into.copy_(at::sum(terms, {1}, false, at::kFloat));
    }
  }
  return true;
}

bool weigh_rows(const Tensor& out, const Tensor& x, const Tensor& weights) {
  Tensor into = out;
  at::mul_out(into, x, weights.unsqueeze(1));
  return true;
}

bool weigh_rows_backward(const Tensor& d, const Tensor& x, const Tensor& weights, const Tensor& sums) {
  if (d.scalar_type() == at::kDouble) return false;
  for (std::int64_t first = 0; first < d.size(0); first += kRowsOfWeights) {
    const std::int64_t count = std::min(kRowsOfWeights, d.size(0) - first);
    Tensor part = d.narrow(0, first, count), into = sums.narrow(0, first, count);
    const Tensor wide = part.to(at::kFloat);
    at::sum_out(into, wide * x.narrow(0, first, count), 1);
    at::mul_out(part, part, weights.narrow(0, first, count).unsqueeze(1));
  }
  return true;
}

}  // namespace hone::ops::cuda
