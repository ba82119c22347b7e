#include "learn/divergence/divergence.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"
#include "learn/divergence/divergence_tile.h"
#include "learn/divergence/head_side.h"

namespace hone::learn {

namespace {

constexpr std::int64_t kTilesOfScratch =
    8;  // logits of both models, and what divergence_slope() makes of them

void check(const DivergenceHead& student, const DivergenceHead& teacher, const DivergenceOptions& options) {
  constexpr const char* kWhere = "learn::divergence";
  for (const DivergenceHead* one : {&student, &teacher}) {
    base::require(one->weight.defined() && one->hidden.dim() == 2 &&
                      one->hidden.size(1) == one->weight.in() &&
                      one->hidden.scalar_type() == one->weight.dtype(),
                  kWhere, "hidden to be [n, H] in the head's dtype");
  }
  base::require(student.hidden.size(0) == teacher.hidden.size(0), kWhere, "as many rows of both models");
  base::require(student.weight.out() == teacher.weight.out(), kWhere, "two heads of one vocabulary");
  base::require(options.beta >= 0 && options.beta <= 1, kWhere, "beta in 0..1");
  base::require(options.temperature > 0, kWhere, "a temperature above 0");
}

template <typename Use>
void each_tile(const HeadSide& student, const HeadSide& teacher, const Use& use) {
  const std::int64_t vocabulary = student.head().weight.out();
  for (std::int64_t column = 0; column < vocabulary; column += kTileColumns) {
    const std::int64_t width = std::min(kTileColumns, vocabulary - column);
    use(column, student.logits(column, width), teacher.logits(column, width));
  }
}

struct BlockFacts {
  at::Tensor divergence, entropy;  // [n] fp64
  TileRows rows;
};

at::Tensor column_of(const at::Tensor& x) {
  return x.to(at::kFloat).unsqueeze(1);
}

BlockFacts facts_of(const HeadSide& student, const HeadSide& teacher, double beta) {
  RowSums of_student(student.hidden()), of_teacher(student.hidden());
  each_tile(student, teacher, [&](std::int64_t, const at::Tensor& s, const at::Tensor& t) {
    of_student.take(s, t);
    of_teacher.take(t, s);
  });
  const at::Tensor log_s = of_student.log_sum(), log_t = of_teacher.log_sum();
  BlockFacts out{
      .divergence = {},
      .entropy = log_s - of_student.mean(),
      .rows = {.beta = beta, .student_log_sum = column_of(log_s), .teacher_log_sum = column_of(log_t)}};
  if (beta == 0) {
    out.divergence = of_teacher.mean_gap() - log_t + log_s;
  } else if (beta == 1) {
    out.divergence = of_student.mean_gap() - log_s + log_t;
    out.rows.offset = column_of(out.divergence);
  } else {
    MixtureSums sums{.student = at::zeros_like(log_s), .teacher = at::zeros_like(log_s)};
    each_tile(student, teacher,
              [&](std::int64_t, const at::Tensor& s, const at::Tensor& t) { sums.take(out.rows, s, t); });
    out.divergence = beta * sums.teacher + (1 - beta) * sums.student;
    out.rows.offset = column_of(sums.student);
  }
  return out;
}

// d_hidden [n, H] comes in as zeros.
void add_gradient(const HeadSide& student, const HeadSide& teacher, const TileRows& rows, double factor,
                  const DivergenceTrained& trained, const at::Tensor& d_hidden) {
  HeadGradient gradient(student, trained, d_hidden);
  each_tile(student, teacher, [&](std::int64_t column, const at::Tensor& s, const at::Tensor& t) {
    gradient.take(divergence_slope(rows, s, t).mul_(factor), s, column);
  });
  gradient.finish();
}

DivergenceRows run(const DivergenceHead& student, const DivergenceHead& teacher,
                   const DivergenceOptions& options, const double* factor, const DivergenceTrained& trained) {
  const at::NoGradGuard no_grad;
  check(student, teacher, options);
  const std::int64_t n = student.hidden.size(0);
  const auto wide = student.hidden.options().dtype(at::kFloat);
  DivergenceRows out{.divergence = at::empty({n}, wide), .entropy = at::empty({n}, wide)};
  if (factor != nullptr) out.d_hidden = at::zeros(student.hidden.sizes(), wide);
  for (std::int64_t begin = 0; begin < n; begin += kTileRows) {
    const std::int64_t count = std::min(kTileRows, n - begin);
    const HeadSide of_student(student, begin, count, options.temperature);
    const HeadSide of_teacher(teacher, begin, count, options.temperature);
    const BlockFacts facts = facts_of(of_student, of_teacher, options.beta);
    out.divergence.narrow(0, begin, count).copy_(facts.divergence);
    out.entropy.narrow(0, begin, count).copy_(facts.entropy);
    if (factor == nullptr) continue;
    add_gradient(of_student, of_teacher, facts.rows, *factor, trained, out.d_hidden.narrow(0, begin, count));
  }
  return out;
}

}  // namespace

DivergenceRows divergence(const DivergenceHead& student, const DivergenceHead& teacher,
                          const DivergenceOptions& options) {
  return run(student, teacher, options, nullptr, {});
}

DivergenceRows divergence_gradient(const DivergenceHead& student, const DivergenceHead& teacher,
                                   const DivergenceOptions& options, double factor,
                                   const DivergenceTrained& trained) {
  return run(student, teacher, options, &factor, trained);
}

std::int64_t divergence_bytes(std::int64_t n, std::int64_t vocabulary, at::ScalarType dtype) {
  return std::min(n, kTileRows) * std::min(vocabulary, kTileColumns) *
         (4 * kTilesOfScratch + static_cast<std::int64_t>(c10::elementSize(dtype)));
}

}  // namespace hone::learn
