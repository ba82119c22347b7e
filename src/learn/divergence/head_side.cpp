#include "learn/divergence/head_side.h"

#include <ATen/ATen.h>

#include <cstddef>
#include <vector>

#include "ops/gemm.h"
#include "ops/head/soft_cap.h"
#include "ops/index_tensor.h"

namespace hone::learn {

namespace {

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

}  // namespace

HeadSide::HeadSide(const DivergenceHead& head, std::int64_t begin, std::int64_t count, double temperature)
    : head_(head),
      temperature_(temperature),
      hidden_(head.hidden.narrow(0, begin, count).contiguous()),
      block_(hidden_, head_.weight, head_.own, head_.soft_cap) {}

at::Tensor HeadSide::logits(std::int64_t column, std::int64_t width) const {
  at::Tensor out = at::empty({hidden_.size(0), width}, hidden_.options().dtype(at::kFloat));
  block_.logits(out, column);
  return temperature_ == 1 ? out : out.div_(temperature_);
}

void HeadSide::uncap(at::Tensor d, const at::Tensor& logits) const {
  if (temperature_ != 1) d.div_(temperature_);
  if (head_.soft_cap > 0) ops::soft_cap_backward(d, logits * temperature_, head_.soft_cap);
}

HeadGradient::HeadGradient(const HeadSide& side, const DivergenceTrained& trained, const at::Tensor& d_hidden)
    : side_(side), trained_(trained), d_hidden_(d_hidden) {
  if (trained.own.defined()) of_own_ = at::zeros_like(side.block().own_logits());
}

void HeadGradient::take(at::Tensor d, const at::Tensor& logits, std::int64_t column) {
  side_.uncap(d, logits);
  if (of_own_.defined()) take_own(*side_.head().own, d, column, of_own_);
  d = d.to(side_.head().weight.dtype());
  if (trained_.weight.defined())
    ops::add_weight_gradient(trained_.weight.narrow(0, column, d.size(1)), d, side_.hidden());
  side_.block().add_product(d_hidden_, d, column);
}

void HeadGradient::finish() const {
  if (of_own_.defined())
    ops::add_outer(trained_.own, of_own_.to(side_.head().weight.dtype()), side_.hidden());
}

}  // namespace hone::learn
