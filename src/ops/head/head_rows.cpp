#include "ops/head/head_rows.h"

#include <ATen/ATen.h>

#include <map>

#include "base/error.h"
#include "ops/gemm.h"
#include "ops/head/soft_cap.h"
#include "ops/index_tensor.h"

namespace hone::ops {
namespace {

at::Tensor indices(const std::vector<std::int64_t>& values, const at::Tensor& like) {
  return index_tensor(values, like.device());
}

}  // namespace

HeadBlock::HeadBlock(const at::Tensor& hidden, const Weight& head, const HeadRows* own, double soft_cap)
    : hidden_(hidden), head_(head), own_(own), soft_cap_(soft_cap) {
  if (own == nullptr) return;
  base::require(own->rows.out() == static_cast<std::int64_t>(own->ids.size()) &&
                    own->rows.in() == head.in() && own->rows.dtype() == head.dtype(),
                "ops::HeadBlock", "rows [k, H] of the head's dtype, one an id");
  own_logits_ = at::empty({hidden.size(0), own->rows.out()}, hidden.options().dtype(at::kFloat));
  multiply(own_logits_, hidden, own->rows, GemmDirection::kForward);
  soft_cap_into(own_logits_, soft_cap);
}

HeadBlock::Places HeadBlock::places(std::int64_t column, std::int64_t width) const {
  if (own_ == nullptr) return {};
  std::vector<std::int64_t> columns, rows;
  for (std::size_t i = 0; i < own_->ids.size(); ++i) {
    const std::int64_t place = own_->ids[i] - column;
    if (place < 0 || place >= width) continue;
    columns.push_back(place);
    rows.push_back(static_cast<std::int64_t>(i));
  }
  if (rows.empty()) return {};
  return {.column = indices(columns, hidden_), .row = indices(rows, hidden_)};
}

void HeadBlock::logits(const at::Tensor& out, std::int64_t column) const {
  const std::int64_t width = out.size(1);
  const bool whole = column == 0 && width == head_.out();
  multiply(out, hidden_, whole ? head_ : head_.slice(column, column + width), GemmDirection::kForward);
  soft_cap_into(out, soft_cap_);
  if (const Places own = places(column, width); own.row.defined()) {
    at::Tensor(out).index_copy_(1, own.column, own_logits_.index_select(1, own.row));
  }
}

void HeadBlock::add_product(const at::Tensor& gradient, const at::Tensor& coefficients,
                            std::int64_t column) const {
  const std::int64_t width = coefficients.size(1);
  const Places own = places(column, width);
  at::Tensor share;  // [n, m]
  if (own.row.defined()) {
    share = coefficients.index_select(1, own.column).to(at::kFloat);
    at::Tensor(coefficients).index_fill_(1, own.column, 0);
  }
  multiply(gradient, coefficients, head_.slice(column, column + width), GemmDirection::kBackward, gradient);
  if (share.defined()) at::Tensor(gradient).addmm_(share, own_->rows.rows(own.row).to(at::kFloat));
}

at::Tensor rows_of(const Weight& head, const HeadRows* own, const at::Tensor& ids) {
  at::Tensor out = head.rows(ids).to(at::kFloat);
  if (own == nullptr) return out;
  std::map<std::int64_t, std::int64_t> row_of;
  for (std::size_t i = 0; i < own->ids.size(); ++i) row_of[own->ids[i]] = static_cast<std::int64_t>(i);
  const at::Tensor here = ids.cpu().contiguous();
  const auto* id = here.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> places, rows;
  for (std::int64_t i = 0; i < here.numel(); ++i) {
    const auto found = row_of.find(id[i]);
    if (found == row_of.end()) continue;
    places.push_back(i);
    rows.push_back(found->second);
  }
  if (rows.empty()) return out;
  return out.index_copy_(0, indices(places, out), own->rows.rows(indices(rows, out)).to(at::kFloat));
}

void add_head_rows_gradient(const at::Tensor& gradient, const HeadRows& own, const at::Tensor& own_logits,
                            const HeadLoss& loss) {
  const auto column = [](const at::Tensor& x) { return x.to(at::kFloat).unsqueeze(1); };
  // [n, k]; finite, so that an impossible token has 0 and not 0 * inf
  const at::Tensor logp = (own_logits / loss.temperature - column(loss.log_sum)).clamp_min_(-1e30);
  const at::Tensor p = logp.exp();
  const at::Tensor is_target = loss.targets.unsqueeze(1).eq(indices(own.ids, loss.targets).unsqueeze(0));
  // 1 - p with the digits that a subtraction loses where the model is sure.
  at::Tensor d = at::where(is_target, -logp.expm1(), -p).mul_(column(loss.d_logprob));
  if (loss.d_entropy.defined()) d.sub_((logp + column(loss.entropy)).mul_(p).mul_(column(loss.d_entropy)));
  d.div_(loss.temperature);
  soft_cap_backward(d, own_logits, loss.soft_cap);
  add_outer(gradient, d.to(loss.hidden.scalar_type()), loss.hidden);
}

}  // namespace hone::ops
