// The online softmax's passes over rows on a CPU with avx2: one thread a row.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/backend/cpu/cpu_operators.h"
#include "ops/backend/cpu/level.h"
#include "ops/backend/cpu/row_call.h"

namespace hone::ops::cpu {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// One row's numbers while its tiles pass.
struct Row {
  float peak, target;
  std::int64_t first;
  double sum, dot, squares;
};

// SoftmaxRows as a kernel reads and writes it.
struct RowsView {
  explicit RowsView(SoftmaxRows& rows)
      : temperature(rows.temperature),
        scale(static_cast<float>(1 / rows.temperature)),
        targets(rows.targets.const_data_ptr<std::int64_t>()),
        peak(rows.peak.mutable_data_ptr<float>()),
        target(rows.target.mutable_data_ptr<float>()),
        first(rows.first.mutable_data_ptr<std::int64_t>()),
        sum(rows.sum.mutable_data_ptr<double>()),
        dot(rows.dot.mutable_data_ptr<double>()),
        squares(rows.squares.defined() ? rows.squares.mutable_data_ptr<double>() : nullptr) {}

  Row load(std::int64_t i) const {
    return {peak[i], target[i], first[i], sum[i], dot[i], squares == nullptr ? 0 : squares[i]};
  }
  void store(std::int64_t i, const Row& row) const {
    peak[i] = row.peak;
    target[i] = row.target;
    first[i] = row.first;
    sum[i] = row.sum;
    dot[i] = row.dot;
    if (squares != nullptr) squares[i] = row.squares;
  }

  const kernels::LogprobKernels& run = *level_kernels().logprob;
  double temperature;
  float scale;
  const std::int64_t* targets;
  float *peak, *target;
  std::int64_t* first;
  double *sum, *dot, *squares;  // squares: null unless asked for
};

// Returns what the row's sums so far were multiplied by.
double take_row_tile(const RowsView& view, Row& row, std::int64_t target, const float* x, std::int64_t width,
                     std::int64_t first_column, float* wide, std::uint16_t* narrow) {
  double factor = 1;
  const float most = view.run.peak(x, width);
  if (most > row.peak) {
    const double shift = (static_cast<double>(row.peak) - static_cast<double>(most)) / view.temperature;
    factor = std::isinf(row.peak) ? 0 : std::exp(shift);
    row.dot = factor == 0 ? 0 : (row.dot + shift * row.sum) * factor;
    row.sum *= factor;
    row.squares *= factor * factor;
    row.peak = most;
    row.first = first_column + std::distance(x, std::find(x, x + width, most));
  }
  const float base = row.peak == kNone ? 0 : row.peak;
  const kernels::ExpSums sums = view.run.exp(x, width, base, view.scale, 1, wide, narrow);
  row.sum += sums.sum;
  row.dot += sums.dot;
  if (view.squares != nullptr)
    row.squares += view.run.exp(x, width, base, 2 * view.scale, 1, nullptr, nullptr).sum;
  if (const std::int64_t own = target - first_column; own >= 0 && own < width) {
    row.target = x[own];
    if (wide != nullptr) wide[own] = 0;
    if (narrow != nullptr) narrow[own] = 0;
  }
  return factor;
}

// A matrix's rows as the kernels write them: fp32 or bf16, or none.
struct Written {
  explicit Written(const Tensor& matrix) {
    if (!matrix.defined()) return;
    base::require(matrix.stride(1) == 1 || matrix.size(1) == 1, "ops::take_tile", "rows without gaps");
    step = matrix.stride(0);
    if (matrix.scalar_type() == at::kFloat) {
      wide = matrix.mutable_data_ptr<float>();
    } else {
      narrow = reinterpret_cast<std::uint16_t*>(matrix.mutable_data_ptr<at::BFloat16>());
    }
  }
  float* wide_row(std::int64_t i) const { return wide == nullptr ? nullptr : wide + i * step; }
  std::uint16_t* narrow_row(std::int64_t i) const { return narrow == nullptr ? nullptr : narrow + i * step; }

  float* wide = nullptr;
  std::uint16_t* narrow = nullptr;
  std::int64_t step = 0;
};

bool has_kernel(const Tensor& logits) {
  return level_kernels().logprob != nullptr && logits.is_cpu() &&
         (logits.size(1) == 1 || logits.stride(1) == 1);
}

}  // namespace

bool take_tile(SoftmaxRows& rows, const Tensor& logits, std::int64_t first_column,
               const Tensor& probabilities, const Tensor& accumulator) {
  if (!has_kernel(logits)) return false;
  const RowsView view(rows);
  const Written out(probabilities), sums(accumulator);
  const float* x = logits.const_data_ptr<float>();
  const std::int64_t width = logits.size(1), step = logits.stride(0);
  over_rows(logits.size(0), width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Row row = view.load(i);
      const double factor = take_row_tile(view, row, view.targets[i], x + i * step, width, first_column,
                                          out.wide_row(i), out.narrow_row(i));
      view.store(i, row);
      if (sums.wide != nullptr && factor != 1) {
        view.run.scale(sums.wide_row(i), accumulator.size(1), static_cast<float>(factor));
      }
    }
  });
  return true;
}

bool take_row(SoftmaxRows& rows, const Tensor& logits) {
  if (!has_kernel(logits)) return false;
  const RowsView view(rows);
  const float* x = logits.const_data_ptr<float>();
  const std::int64_t width = logits.size(1), step = logits.stride(0);
  over_rows(logits.size(0), width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      Row row = view.load(i);
      for (std::int64_t column = 0; column < width; column += kTileColumns) {
        take_row_tile(view, row, view.targets[i], x + i * step + column,
                      std::min(kTileColumns, width - column), column, nullptr, nullptr);
      }
      view.store(i, row);
    }
  });
  return true;
}

bool finish(TokenLogprobs& facts, const SoftmaxRows& const_rows) {
  if (!has_kernel(const_rows.peak.unsqueeze(1))) return false;
  SoftmaxRows rows = const_rows;
  const RowsView view(rows);
  facts = {.logprob = at::empty_like(rows.peak),
           .entropy = at::empty_like(rows.peak),
           .is_top1 = at::empty_like(rows.peak),
           .log_sum = at::empty_like(rows.peak),
           .gradient = {},
           .log_sum_squares = rows.squares.defined() ? at::empty_like(rows.peak) : Tensor()};
  auto* logprob = facts.logprob.mutable_data_ptr<float>();
  auto* entropy = facts.entropy.mutable_data_ptr<float>();
  auto* is_top1 = facts.is_top1.mutable_data_ptr<float>();
  auto* log_sums = facts.log_sum.mutable_data_ptr<float>();
  auto* squares = facts.log_sum_squares.defined() ? facts.log_sum_squares.mutable_data_ptr<float>() : nullptr;
  for (std::int64_t i = 0; i < rows.peak.size(0); ++i) {
    const Row row = view.load(i);
    const double base = row.peak == kNone ? 0 : static_cast<double>(row.peak);
    const double log_sum = std::log(row.sum);
    logprob[i] = static_cast<float>((static_cast<double>(row.target) - base) / rows.temperature - log_sum);
    entropy[i] = static_cast<float>(log_sum - row.dot / row.sum);
    is_top1[i] = row.first == view.targets[i] ? 1.0F : 0.0F;
    log_sums[i] = static_cast<float>(base / rows.temperature + log_sum);
    if (squares != nullptr) squares[i] = static_cast<float>(std::log(row.squares) - 2 * log_sum);
  }
  return true;
}

bool tile_backward(const TileBackward& rows, const Tensor& logits, std::int64_t first_column,
                   const Tensor& narrow) {
  if (!has_kernel(logits)) return false;
  const Tensor targets = rows.targets.contiguous(), log_sum = rows.log_sum.contiguous();
  const Tensor upstream = rows.upstream.contiguous();
  const auto* target = targets.const_data_ptr<std::int64_t>();
  const auto* log_sums = log_sum.const_data_ptr<float>();
  const auto* above = upstream.const_data_ptr<float>();
  const Written d(logits), rounded(narrow);
  const kernels::LogprobKernels& run = *level_kernels().logprob;
  const std::int64_t width = logits.size(1);
  over_rows(logits.size(0), width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* x = d.wide_row(i);
      const auto scale = static_cast<float>(static_cast<double>(above[i]) / rows.temperature);
      const double base = static_cast<double>(log_sums[i]) * rows.temperature;
      const std::int64_t own = target[i] - first_column;
      const bool here = own >= 0 && own < width;
      const double z = here ? (static_cast<double>(x[own]) - base) / rows.temperature : 0;
      run.exp(x, width, static_cast<float>(base), static_cast<float>(1 / rows.temperature), -scale,
              narrow.defined() ? nullptr : x, rounded.narrow_row(i));
      if (!here) continue;
      const float share = -scale * static_cast<float>(std::expm1(z));  // 1 - p, with the digits it loses
      if (narrow.defined()) {
        rounded.narrow_row(i)[own] = at::BFloat16(share).x;
      } else {
        x[own] = share;
      }
    }
  });
  return true;
}

}  // namespace hone::ops::cpu
