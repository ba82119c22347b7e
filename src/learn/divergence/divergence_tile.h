// The arithmetic of one tile of learn/divergence/divergence.h: columns of the logits z of both models, [n, w] fp32, temperature
// applied. Internal to learn.
#pragma once

#include <ATen/core/Tensor.h>

namespace hone::learn {

// Sums of one model's rows over the tiles so far, [n] each: of e = exp(z - peak), in fp64.
class RowSums {
 public:
  // Begins the sums of as many rows as `like` [n, H] has.
  explicit RowSums(const at::Tensor& like);

  // `other` holds the other model's columns.
  void take(const at::Tensor& z, const at::Tensor& other);

  at::Tensor log_sum() const;   // log sum exp(z)
  at::Tensor mean() const;      // sum p z
  at::Tensor mean_gap() const;  // sum p (z - other)

 private:
  at::Tensor peak_;             // fp32, -inf at first
  at::Tensor sum_, dot_, gap_;  // sum e, sum e z, sum e (z - other)
};

// Holds what a row's tiles are compared by, [n, 1] fp32.
struct TileRows {
  double beta = 1;
  at::Tensor student_log_sum, teacher_log_sum;
  at::Tensor offset = {};  // D for beta 1, KL(p_s || m) between the ends; not read for beta 0
};

// Between the ends: KL(p_s || m) and KL(p_t || m) of rows, [n] fp64.
struct MixtureSums {
  at::Tensor student, teacher;
  void take(const TileRows& rows, const at::Tensor& student_z, const at::Tensor& teacher_z);
};

// [n, w]: d D / d z_s.
at::Tensor divergence_slope(const TileRows& rows, const at::Tensor& student_z, const at::Tensor& teacher_z);

}  // namespace hone::learn
