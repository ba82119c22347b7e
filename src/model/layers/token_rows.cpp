#include "model/layers/token_rows.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/index_tensor.h"
#include "ops/routed_rows.h"

namespace hone::model {

TokenRows::TokenRows(std::vector<std::int64_t> ids, at::Tensor values)
    : ids_(std::move(ids)), values_(std::move(values)) {
  for (std::size_t i = 0; i < ids_.size(); ++i) row_of_[ids_[i]] = static_cast<std::int64_t>(i);
  base::require(row_of_.size() == ids_.size() && values_.dim() == 2 &&
                    values_.size(0) == static_cast<std::int64_t>(ids_.size()),
                "model::TokenRows", "distinct ids, and a row of each");
}

TokenRows::Places TokenRows::places(const std::vector<std::int64_t>& ids,
                                    const ops::PassContext& pass) const {
  if (!defined() || !pass.adapters_on) return {};
  std::vector<std::int64_t> tokens, rows;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const auto found = row_of_.find(ids[t]);
    if (found == row_of_.end()) continue;
    tokens.push_back(static_cast<std::int64_t>(t));
    rows.push_back(found->second);
  }
  if (rows.empty()) return {};
  return {.token = ops::index_tensor(tokens, values_.device()),
          .row = ops::index_tensor(rows, values_.device()),
          .tokens = tokens,
          .rows = rows};
}

at::Tensor TokenRows::put(const at::Tensor& x, const Places& places) const {
  if (!places.any()) return x;
  return x.index_copy(0, places.token, values_.to(x.scalar_type()).index_select(0, places.row));
}

void TokenRows::add_gradient(const at::Tensor& d, const Places& places) const {
  ops::add_rows(values_.grad(), d, places.rows, places.tokens);
}

}  // namespace hone::model
