// Packed weights: panels of 32 rows of W, of bf16 [in / 2][32][2] (pairs of neighboring inputs side by side), of float32
// [in][32]; rows padded with zeros to a multiple of 32, inputs of bf16 to a multiple of 2. One layout for all levels from
// avx2 on.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "ops/backend/cpu/cpu_operators.h"
#include "ops/backend/cpu/gemm_blocks.h"
#include "ops/weight.h"

namespace hone::ops::cpu {
namespace {

static_assert(Weight::kSliceRows == kernels::kPanelWide);

using kernels::kPanelWide;
using kernels::Word;

// Words from one panel to the next.
std::int64_t panel_words(std::int64_t in, bool is_float) {
  return kernels::words_of(in, is_float) * kPanelWide;
}

std::int64_t panels_of(std::int64_t out) {
  return (out + kPanelWide - 1) / kPanelWide;
}

// Every 32nd word of a panel: 4 bytes of each 128.
void copy_row(const Word* panels, std::int64_t in, bool is_float, std::int64_t row, void* to) {
  const Word* from = panels + row / kPanelWide * panel_words(in, is_float) + row % kPanelWide;
  const std::int64_t whole = is_float ? in : in / 2;
  auto* const words = static_cast<char*>(to);
  for (std::int64_t word = 0; word < whole; ++word)
    std::memcpy(words + 4 * word, from + word * kPanelWide, 4);
  if (!is_float && in % 2 != 0) std::memcpy(words + 4 * whole, from + whole * kPanelWide, 2);
}

bool fits(const at::Tensor& plain) {
  return plain.device().is_cpu() && gemm_kernels(plain.scalar_type()) != nullptr;
}

at::Tensor pack(const at::Tensor& plain) {
  const bool is_float = plain.scalar_type() == at::kFloat;
  const std::int64_t count = panels_of(plain.size(0));
  const std::int64_t size = panel_words(plain.size(1), is_float);
  at::Tensor packed = at::empty({count * size * (is_float ? 1 : 2)}, plain.options());
  const auto* from = static_cast<const char*>(plain.const_data_ptr());
  auto* const to = static_cast<Word*>(packed.mutable_data_ptr());
  const std::int64_t stride = plain.stride(0);
  const std::int64_t halves = is_float ? 2 : 1;  // 16 bits of a number
  auto* const pack_rows = gemm_kernels(plain.scalar_type())->pack_rows;
  at::parallel_for(0, count, 1 + (1 << 17) / size, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t first = panel * kPanelWide;
      const std::int64_t n = std::min(kPanelWide, plain.size(0) - first);
      if (n < kPanelWide) std::memset(to + panel * size, 0, static_cast<std::size_t>(size) * sizeof(*to));
      const void* const w = from + first * stride * halves * 2;
      pack_rows(static_cast<const kernels::Bf16*>(w), halves * stride, n, halves * plain.size(1),
                to + panel * size);
    }
  });
  return packed;
}

at::Tensor dense(const at::Tensor& packed, std::int64_t out, std::int64_t in) {
  const bool is_float = packed.scalar_type() == at::kFloat;
  const std::int64_t numbers = is_float ? 1 : 2;  // of a word
  const std::int64_t words = kernels::words_of(in, is_float);
  const at::Tensor panels = packed.view({panels_of(out), words, kPanelWide, numbers});
  const at::Tensor padded = panels.transpose(1, 2).reshape({panels_of(out) * kPanelWide, words * numbers});
  return padded.narrow(0, 0, out).narrow(1, 0, in).contiguous();
}

at::Tensor rows(const at::Tensor& packed, std::int64_t in, std::span<const std::int64_t> ids) {
  const auto n = static_cast<std::int64_t>(ids.size());
  at::Tensor out = at::empty({n, in}, packed.options());
  const bool is_float = packed.scalar_type() == at::kFloat;
  const auto* const from = static_cast<const Word*>(packed.const_data_ptr());
  auto* const to = static_cast<char*>(out.mutable_data_ptr());
  const std::int64_t bytes = in * (is_float ? 4 : 2);
  at::parallel_for(0, n, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      copy_row(from, in, is_float, ids[static_cast<std::size_t>(i)], to + i * bytes);
  });
  return out;
}

at::Tensor slice(const at::Tensor& packed, std::int64_t out, std::int64_t begin, std::int64_t end) {
  const std::int64_t panel = packed.numel() / panels_of(out);
  const std::int64_t first = begin / kPanelWide, last = panels_of(end);
  return packed.narrow(0, first * panel, (last - first) * panel);
}

}  // namespace

const backend::WeightLayout kPanels = {
    .fits = fits, .pack = pack, .dense = dense, .rows = rows, .slice = slice};

}  // namespace hone::ops::cpu
