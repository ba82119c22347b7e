#include "learn/divergence/divergence_tile.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace hone::learn {

namespace {

at::Tensor row_sum(const at::Tensor& x) {
  return x.sum(1, false, at::kDouble);
}

// log m of a tile, from log p of both.
at::Tensor log_mixture(double beta, const at::Tensor& student, const at::Tensor& teacher) {
  return at::logaddexp(student + std::log1p(-beta), teacher + std::log(beta));
}

}  // namespace

RowSums::RowSums(const at::Tensor& like)
    : peak_(at::full({like.size(0)}, -std::numeric_limits<float>::infinity(),
                     like.options().dtype(at::kFloat))),
      sum_(at::zeros({like.size(0)}, like.options().dtype(at::kDouble))),
      dot_(at::zeros_like(sum_)),
      gap_(at::zeros_like(sum_)) {}

void RowSums::take(const at::Tensor& z, const at::Tensor& other) {
  const at::Tensor peak = at::maximum(peak_, z.amax(1));
  const at::Tensor shrink = (peak_ - peak).exp().to(at::kDouble);
  const at::Tensor e = (z - peak.unsqueeze(1)).exp();
  sum_.mul_(shrink).add_(row_sum(e));
  dot_.mul_(shrink).add_(row_sum(e * z));
  gap_.mul_(shrink).add_(row_sum((z - other).mul_(e)));
  peak_ = peak;
}

at::Tensor RowSums::log_sum() const {
  return peak_.to(at::kDouble) + sum_.log();
}
at::Tensor RowSums::mean() const {
  return dot_ / sum_;
}
at::Tensor RowSums::mean_gap() const {
  return gap_ / sum_;
}

void MixtureSums::take(const TileRows& rows, const at::Tensor& student_z, const at::Tensor& teacher_z) {
  const at::Tensor log_s = student_z - rows.student_log_sum;
  const at::Tensor log_t = teacher_z - rows.teacher_log_sum;
  const at::Tensor log_m = log_mixture(rows.beta, log_s, log_t);
  student.add_(row_sum((log_s - log_m).mul_(log_s.exp())));
  teacher.add_(row_sum((log_t - log_m).mul_(log_t.exp())));
}

at::Tensor divergence_slope(const TileRows& rows, const at::Tensor& student_z, const at::Tensor& teacher_z) {
  const at::Tensor log_s = student_z - rows.student_log_sum;
  const at::Tensor log_t = teacher_z - rows.teacher_log_sum;
  if (rows.beta == 0) return log_s.exp() - log_t.exp();
  if (rows.beta == 1) return (log_s - log_t).sub_(rows.offset).mul_(log_s.exp());
  const at::Tensor log_m = log_mixture(rows.beta, log_s, log_t);
  return (log_s - log_m).sub_(rows.offset).mul_(log_s.exp()).mul_(1 - rows.beta);
}

}  // namespace hone::learn
