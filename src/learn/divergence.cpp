#include "learn/divergence.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "learn/divergence_tile.h"
#include "ops/gemm.h"
#include "ops/head/soft_cap.h"
#include "ops/index_tensor.h"

namespace hone::learn {

namespace {

constexpr std::int64_t kRows = 256, kColumns = 1024;  // of a tile
static_assert(kColumns % ops::Weight::kSliceRows == 0);
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

// Rows of one model, and their logits tile by tile.
class Side {
 public:
  Side(const DivergenceHead& head, std::int64_t begin, std::int64_t count, double temperature)
      : head_(head),
        temperature_(temperature),
        hidden_(head.hidden.narrow(0, begin, count).contiguous()),
        block_(hidden_, head_.weight, head_.own, head_.soft_cap) {}
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  // [n, width], capped and with temperature.
  at::Tensor logits(std::int64_t column, std::int64_t width) const {
    at::Tensor out = at::empty({hidden_.size(0), width}, hidden_.options().dtype(at::kFloat));
    block_.logits(out, column);
    return temperature_ == 1 ? out : out.div_(temperature_);
  }
  // From the gradient of logits() to that of the head's products.
  void uncap(at::Tensor d, const at::Tensor& logits) const {
    if (temperature_ != 1) d.div_(temperature_);
    if (head_.soft_cap > 0) ops::soft_cap_backward(d, logits * temperature_, head_.soft_cap);
  }
  const at::Tensor& hidden() const { return hidden_; }
  const DivergenceHead& head() const { return head_; }
  const ops::HeadBlock& block() const { return block_; }

 private:
  const DivergenceHead& head_;
  double temperature_;
  at::Tensor hidden_;
  ops::HeadBlock block_;
};

template <typename Use>
void each_tile(const Side& student, const Side& teacher, const Use& use) {
  const std::int64_t vocabulary = student.head().weight.out();
  for (std::int64_t column = 0; column < vocabulary; column += kColumns) {
    const std::int64_t width = std::min(kColumns, vocabulary - column);
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

BlockFacts facts_of(const Side& student, const Side& teacher, double beta) {
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

// The coefficients of a tile's columns of `own`, for their gradient.
void take_own(const ops::HeadRows& own, const at::Tensor& tile, std::int64_t column, const at::Tensor& to) {
  std::vector<std::int64_t> from, place;
  for (std::size_t i = 0; i < own.ids.size(); ++i) {
    if (own.ids[i] < column || own.ids[i] >= column + tile.size(1)) continue;
    from.push_back(own.ids[i] - column);
    place.push_back(static_cast<std::int64_t>(i));
  }
  if (from.empty()) return;
  at::Tensor(to).index_copy_(1, ops::index_tensor(place, tile.device()),
                             tile.index_select(1, ops::index_tensor(from, tile.device())));
}

// d_hidden [n, H] comes in as zeros.
void add_gradient(const Side& student, const Side& teacher, const TileRows& rows, double factor,
                  const DivergenceTrained& trained, const at::Tensor& d_hidden) {
  const at::ScalarType dtype = student.head().weight.dtype();
  at::Tensor of_own;
  if (trained.own.defined()) of_own = at::zeros_like(student.block().own_logits());
  each_tile(student, teacher, [&](std::int64_t column, const at::Tensor& s, const at::Tensor& t) {
    at::Tensor d = divergence_slope(rows, s, t).mul_(factor);
    student.uncap(d, s);
    if (of_own.defined()) take_own(*student.head().own, d, column, of_own);
    d = d.to(dtype);
    if (trained.weight.defined())
      ops::add_weight_gradient(trained.weight.narrow(0, column, d.size(1)), d, student.hidden());
    student.block().add_product(d_hidden, d, column);
  });
  if (of_own.defined()) ops::add_outer(trained.own, of_own.to(dtype), student.hidden());
}

DivergenceRows run(const DivergenceHead& student, const DivergenceHead& teacher,
                   const DivergenceOptions& options, const double* factor, const DivergenceTrained& trained) {
  const at::NoGradGuard no_grad;
  check(student, teacher, options);
  const std::int64_t n = student.hidden.size(0);
  const auto wide = student.hidden.options().dtype(at::kFloat);
  DivergenceRows out{.divergence = at::empty({n}, wide), .entropy = at::empty({n}, wide)};
  if (factor != nullptr) out.d_hidden = at::zeros(student.hidden.sizes(), wide);
  for (std::int64_t begin = 0; begin < n; begin += kRows) {
    const std::int64_t count = std::min(kRows, n - begin);
    const Side of_student(student, begin, count, options.temperature);
    const Side of_teacher(teacher, begin, count, options.temperature);
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
  return std::min(n, kRows) * std::min(vocabulary, kColumns) *
         (4 * kTilesOfScratch + static_cast<std::int64_t>(c10::elementSize(dtype)));
}

}  // namespace hone::learn
