#include "ops/join/join.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>

#include "ops/backend/operators.h"
#include "ops/routed_rows.h"

namespace hone::ops {
namespace {

constexpr std::int64_t kNever = -1;  // no tensor's version

// The joins that there are.
class Made {
 public:
  void add(const std::shared_ptr<const Join>& join) {
    const std::lock_guard lock(mutex_);
    std::erase_if(joins_, [](const std::weak_ptr<const Join>& one) { return one.expired(); });
    joins_.push_back(join);
  }
  std::vector<std::shared_ptr<const Join>> all() {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<const Join>> out;
    for (const std::weak_ptr<const Join>& one : joins_)
      if (std::shared_ptr<const Join> join = one.lock()) out.push_back(std::move(join));
    return out;
  }

  // Held by whoever brings joins up to date: one call writes those of other models too. The products read them without it, so
  // that models of one device are computed by one thread at a time.
  std::mutex& being_refreshed() { return being_refreshed_; }

 private:
  std::mutex mutex_, being_refreshed_;
  std::vector<std::weak_ptr<const Join>> joins_;
};

Made& made() {
  static Made one;
  return one;
}

constexpr std::int64_t kMultiple = 8;  // of the ranks: rows of the matrix begin at 16 bytes

bool can_join(const Linear& linear) {
  if (!linear.weight.has_numbers() || linear.weight.is_packed() || linear.weight.is_quantized()) return false;
  if (linear.trained_weight.defined() || linear.trained_bias.defined() || linear.frozen_lora) return false;
  return linear.stacked == 1 && !(linear.lora && linear.lora->magnitude.defined());
}

std::int64_t rank_of(const Linear& linear) {
  return linear.lora ? linear.lora->a.size(0) : 0;
}

// The biases one behind another, zeros where a linear has none.
at::Tensor biases_of(std::span<Linear* const> linears) {
  const auto has_one = [](const Linear* linear) { return linear->bias.defined(); };
  if (std::none_of(linears.begin(), linears.end(), has_one)) return {};
  std::vector<at::Tensor> all;
  for (const Linear* const linear : linears) {
    all.push_back(linear->bias.defined()
                      ? linear->bias
                      : at::zeros({linear->weight.out()}, linear->weight.plain().options()));
  }
  return at::cat(all);
}

}  // namespace

void Join::make(std::span<Linear* const> linears) {
  if (linears.empty()) return;
  const Weight& first = linears.front()->weight;
  if (!backend::operators_of(first.device()).joins_linears) return;
  for (const Linear* const linear : linears) {
    if (!can_join(*linear) || linear->weight.in() != first.in() || linear->weight.dtype() != first.dtype() ||
        linear->weight.device() != first.device())
      return;
  }
  const auto join = std::make_shared<Join>();
  join->in_ = first.in();
  std::int64_t ranks = 0;
  bool is_first_side = true;
  for (const Linear* const linear : linears) {
    const double scale = linear->lora ? linear->lora->scale : 1;
    if (linear->lora && !std::exchange(is_first_side, false) && scale != join->scale_) return;
    if (linear->lora) join->scale_ = scale;
    join->parts_.push_back({.out = linear->weight.out(),
                            .first = ranks,
                            .rank = rank_of(*linear),
                            .row = join->out_,
                            .a = {},
                            .b = {}});
    ranks += join->parts_.back().rank;
    join->out_ += join->parts_.back().out;
  }
  const std::int64_t in = join->in_, out = join->out_, rank = (ranks + kMultiple - 1) / kMultiple * kMultiple;
  join->rank_ = rank;
  join->matrix_ = at::zeros({out + rank, in + rank}, first.plain().options());
  const at::Tensor& m = join->matrix_;
  join->weights_ = m.narrow(0, 0, out).narrow(1, 0, in);
  join->wide_ = m.narrow(0, 0, out);
  join->tall_ = m.narrow(1, 0, in);
  if (rank > 0) {
    join->a_ = m.narrow(0, out, rank).narrow(1, 0, in);
    join->b_ = m.narrow(0, 0, out).narrow(1, in, rank);
  }
  join->bias_ = biases_of(linears);
  for (std::size_t i = 0; i < linears.size(); ++i) {
    const at::Tensor place = m.narrow(0, join->parts_[i].row, join->parts_[i].out).narrow(1, 0, in);
    place.copy_(linears[i]->weight.plain());
    linears[i]->weight = place;
    linears[i]->join = join;
    linears[i]->place = i;
  }
  made().add(join);
}

const Join* Join::of(std::span<const Linear* const> linears, bool sides) {
  if (linears.empty()) return nullptr;
  const Join* const join = linears.front()->join.get();
  if (join == nullptr || !join->holds(linears, sides)) return nullptr;
  if (sides) join->refresh(linears);
  return join;
}

// Adapters may have been exchanged since the join was made.
bool Join::holds(std::span<const Linear* const> linears, bool sides) const {
  if (linears.size() != parts_.size()) return false;
  for (std::size_t i = 0; i < linears.size(); ++i) {
    const Linear& linear = *linears[i];
    const Part& part = parts_[i];
    if (linear.join.get() != this || linear.place != i || !can_join(linear)) return false;
    if (!sides) continue;
    if (rank_of(linear) != part.rank || (linear.lora && linear.lora->scale != scale_)) return false;
  }
  return true;
}

void Join::refresh(std::span<const Linear* const> linears) const {
  const std::lock_guard lock(made().being_refreshed());
  for (std::size_t i = 0; i < linears.size(); ++i) {
    const Part& part = parts_[i];
    if (part.rank == 0) continue;
    const LoraWeights& side = *linears[i]->lora;
    if (!part.a.is_same(side.a)) part.a_version = kNever;
    if (!part.b.is_same(side.b)) part.b_version = kNever;
    part.a = side.a;
    part.b = side.b;
  }
  std::vector<BlockCopy> copies;
  take_changed(copies);
  if (copies.empty()) return;
  // After an optimizer's step all joins have changed: where many blocks are a call, this one is for all of them.
  if (copies_blocks(matrix_.device())) {
    for (const std::shared_ptr<const Join>& other : made().all())
      if (other->matrix_.device() == matrix_.device()) other->take_changed(copies);
  }
  copy_blocks(copies);
}

void Join::take_changed(std::vector<BlockCopy>& copies) const {
  for (const Part& part : parts_) {
    if (part.a.defined() && part.a_version != part.a._version()) {
      copies.push_back({matrix_.narrow(0, out_ + part.first, part.rank).narrow(1, 0, in_), part.a.detach()});
      part.a_version = part.a._version();
    }
    if (part.b.defined() && part.b_version != part.b._version()) {
      copies.push_back(
          {matrix_.narrow(0, part.row, part.out).narrow(1, in_ + part.first, part.rank), part.b.detach()});
      part.b_version = part.b._version();
    }
  }
}

at::Tensor Join::roomy(std::int64_t tokens, std::int64_t width, const at::TensorOptions& options) const {
  if (rank_ == 0) return at::empty({tokens, width}, options);
  const at::Tensor all = at::empty({tokens, width + rank_}, options);
  // The columns that make the ranks up to a multiple meet zeros of the matrix, and have to be finite.
  const std::int64_t used = parts_.back().first + parts_.back().rank;
  if (used < rank_) all.narrow(1, width + used, rank_ - used).zero_();
  return all.narrow(1, 0, width);
}

at::Tensor Join::behind(const at::Tensor& x) const {
  const std::int64_t stride = x.size(1) + rank_;
  const bool is_roomy =
      rank_ > 0 && x.dim() == 2 && x.stride(1) == 1 && x.stride(0) == stride && x.storage_offset() == 0 &&
      static_cast<std::int64_t>(x.storage().nbytes()) == x.size(0) * stride * x.element_size();
  return is_roomy ? x.as_strided({x.size(0), rank_}, {stride, 1}, x.size(1)) : at::Tensor();
}

at::Tensor Join::with_behind(const at::Tensor& x) const {
  return x.as_strided({x.size(0), x.size(1) + rank_}, {x.size(1) + rank_, 1}, 0);
}

at::Tensor input_rows(std::span<const Linear> linears, std::int64_t tokens,
                      const at::TensorOptions& options) {
  const Linear& first = linears.front();
  return first.join ? first.join->roomy(tokens, first.weight.in(), options)
                    : at::empty({tokens, first.weight.in()}, options);
}

at::Tensor output_rows(std::span<const Linear> linears, std::int64_t tokens,
                       const at::TensorOptions& options) {
  std::int64_t width = 0;
  for (const Linear& linear : linears) width += linear.weight.out();
  const Linear& first = linears.front();
  return first.join ? first.join->roomy(tokens, width, options) : at::empty({tokens, width}, options);
}

}  // namespace hone::ops
