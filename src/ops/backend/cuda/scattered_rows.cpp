// Rows that are looked up, or added to others, by a kernel of our own. For a sum the host sorts them, so that a row of the sum is one thread block's.
#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/backend/cuda/cuda_operators.h"
#include "ops/backend/cuda/own_kernels.h"
#include "ops/index_tensor.h"

namespace hone::ops::cuda {
namespace {

// Every row of the sum that gets something, where its part of `from` begins, and in `from` the rows of d, in their order.
struct Groups {
  std::vector<std::int64_t> rows, starts, from;
};

Groups grouped(std::span<const std::int64_t> rows, std::span<const std::int64_t> from) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rows[a] < rows[b]; });
  Groups out;
  for (const std::size_t i : order) {
    if (out.rows.empty() || out.rows.back() != rows[i]) {
      out.rows.push_back(rows[i]);
      out.starts.push_back(static_cast<std::int64_t>(out.from.size()));
    }
    out.from.push_back(from.empty() ? static_cast<std::int64_t>(i) : from[i]);
  }
  out.starts.push_back(static_cast<std::int64_t>(out.from.size()));
  return out;
}

}  // namespace

bool add_rows(const Tensor& out, const Tensor& d, std::span<const std::int64_t> rows,
              std::span<const std::int64_t> from) {
  Tensor lists;  // until the kernel has started
  return run_own(out.device(), &kernels::Kernels::add_rows, "add_rows",
                 [&](KernelViews& of) -> kernels::AddRows {
                   const Groups groups = grouped(rows, from);
                   std::vector<std::int64_t> all = groups.rows;
                   all.insert(all.end(), groups.starts.begin(), groups.starts.end());
                   all.insert(all.end(), groups.from.begin(), groups.from.end());
                   lists = index_tensor(all, out.device());
                   const auto* const numbers = lists.const_data_ptr<std::int64_t>();
                   const std::size_t count = groups.rows.size();
                   return {.out = of.rows(out),
                           .d = of.rows(d),
                           .rows = numbers,
                           .starts = numbers + count,
                           .from = numbers + count + groups.starts.size(),
                           .groups = static_cast<std::int64_t>(count),
                           .width = out.size(1)};
                 });
}

bool gather_rows(const Tensor& out, const Tensor& table, const Tensor& ids) {
  return run_own(out.device(), &kernels::Kernels::gather_rows, "gather_rows",
                 [&](KernelViews& of) -> kernels::GatherRows {
                   return {.out = of.rows(out),
                           .table = of.rows(table),
                           .ids = of.numbers<const std::int64_t>(ids),
                           .tokens = ids.numel(),
                           .width = out.size(1)};
                 });
}

}  // namespace hone::ops::cuda
