#include "adapters/task_arithmetic.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace hone::adapters {
namespace {

// [n, ...] times a number for each of n.
at::Tensor weighted(const at::Tensor& stacked, const std::vector<double>& weights) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(stacked.dim()), 1);
  shape[0] = stacked.size(0);
  return stacked * at::tensor(weights, at::kDouble).to(stacked.scalar_type()).view(shape);
}

at::Tensor stack_largest(const std::vector<at::Tensor>& tasks, double density) {
  std::vector<at::Tensor> kept;
  kept.reserve(tasks.size());
  for (const at::Tensor& task : tasks) kept.push_back(keep_largest(task, density));
  return at::stack(kept);
}

// U S [out, k] and V^T [k, in] -> factors of rank `rank`.
Factors largest(const at::Tensor& u, const at::Tensor& s, const at::Tensor& vh, std::int64_t rank) {
  const std::int64_t kept = std::min(rank, s.size(0));
  const at::Tensor rows = vh.narrow(0, 0, kept);
  const at::Tensor places = rows.abs().argmax(1, /*keepdim=*/true);
  const at::Tensor sign = at::where(rows.gather(1, places) < 0, -1.0F, 1.0F);  // [kept, 1]
  Factors out{.a = at::zeros({rank, vh.size(1)}, vh.options()),
              .b = at::zeros({u.size(0), rank}, u.options())};
  out.a.narrow(0, 0, kept).copy_(rows * sign);
  out.b.narrow(1, 0, kept).copy_(u.narrow(1, 0, kept) * (s.narrow(0, 0, kept) * sign.squeeze(1)));
  return out;
}

}  // namespace

at::Tensor weighted_sum(const std::vector<at::Tensor>& tasks, const std::vector<double>& weights) {
  base::require(!tasks.empty() && tasks.size() == weights.size(), "weighted_sum", "a weight for each task");
  return weighted(at::stack(tasks), weights).sum(0);
}

at::Tensor keep_largest(const at::Tensor& task, double density) {
  base::require(density > 0 && density <= 1, "keep_largest", "a density above 0, at most 1");
  if (density == 1) return task;
  const auto count = static_cast<std::int64_t>(density * static_cast<double>(task.numel()));  // PEFT's int()
  const at::Tensor flat = task.reshape(-1);
  const at::Tensor places = std::get<1>(at::topk(flat.abs(), count));
  return at::zeros_like(flat).index_copy_(0, places, flat.index_select(0, places)).reshape(task.sizes());
}

at::Tensor ties(const std::vector<at::Tensor>& tasks, const std::vector<double>& weights, double density,
                Election election) {
  const at::Tensor kept = stack_largest(tasks, density), sign = kept.sign();
  const at::Tensor votes = (election == Election::kTotal ? kept : sign).sum(0);
  const at::Tensor agrees = sign.eq(at::where(votes >= 0, 1.0F, -1.0F));
  return (weighted(kept, weights) * agrees).sum(0) / agrees.sum(0).clamp_min(1);
}

at::Tensor magnitude_prune(const std::vector<at::Tensor>& tasks, const std::vector<double>& weights,
                           double density) {
  return weighted(stack_largest(tasks, density), weights).sum(0);
}

Factors decompose(const at::Tensor& delta, std::int64_t rank) {
  const auto [u, s, vh] = at::linalg_svd(delta, /*full_matrices=*/false);
  return largest(u, s, vh, rank);
}

// delta = (Q_b R_b) (Q_a R_a)^T: the singular values are those of R_b R_a^T.
Factors decompose(const Factors& delta, std::int64_t rank) {
  const auto [q_b, r_b] = at::linalg_qr(delta.b);
  const auto [q_a, r_a] = at::linalg_qr(delta.a.t());
  const auto [u, s, vh] = at::linalg_svd(r_b.matmul(r_a.t()), /*full_matrices=*/false);
  return largest(q_b.matmul(u), s, vh.matmul(q_a.t()), rank);
}

}  // namespace hone::adapters
