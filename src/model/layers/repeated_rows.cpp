#include "model/layers/repeated_rows.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "ops/index_tensor.h"
#include "ops/machine/device_memory.h"

namespace hone::model {

RepeatedRows::RepeatedRows(const at::Tensor& rows, std::int64_t tokens, at::Device device)
    : count_(rows.numel()) {
  base::require(rows.dim() == 1 && rows.scalar_type() == at::kLong && ops::is_host(rows.device()),
                "RepeatedRows", "rows [n] int64 on the CPU");
  const at::Tensor dense = rows.contiguous();
  const std::int64_t* const row = dense.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> index_of(static_cast<std::size_t>(tokens), -1), different, index, first;
  std::vector<std::size_t> repeats;
  struct Places {
    std::vector<std::int64_t> place, token;
  };
  std::vector<Places> again;
  for (std::int64_t i = 0; i < count_; ++i) {
    base::require(row[i] >= 0 && row[i] < tokens, "RepeatedRows", "rows of the batch");
    std::int64_t& token = index_of[static_cast<std::size_t>(row[i])];
    if (token < 0) {
      token = static_cast<std::int64_t>(different.size());
      different.push_back(row[i]);
      first.push_back(i);
      repeats.push_back(0);
    } else {
      const std::size_t time = repeats[static_cast<std::size_t>(token)]++;
      if (again.size() == time) again.emplace_back();
      again[time].place.push_back(i);
      again[time].token.push_back(token);
    }
    index.push_back(token);
  }
  if (again.empty()) {
    different_ = ops::staged(rows, device);
    return;
  }
  const auto tensor = [&](const std::vector<std::int64_t>& x) { return ops::index_tensor(x, device); };
  different_ = tensor(different);
  index_ = tensor(index);
  first_ = tensor(first);
  for (const Places& places : again) again_.push_back({tensor(places.place), tensor(places.token)});
}

at::Tensor RepeatedRows::spread(const at::Tensor& x) const {
  return index_.defined() ? x.index_select(0, index_) : x;
}

at::Tensor RepeatedRows::gather(const at::Tensor& d) const {
  if (!index_.defined()) return d;
  at::Tensor sum = d.index_select(0, first_).to(at::kFloat);
  for (const Again& more : again_) {
    sum.index_add_(0, more.token, d.index_select(0, more.place).to(at::kFloat));
  }
  return sum;
}

}  // namespace hone::model
