// Lists of numbers that go to a device as one tensor, in one staged copy.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "base/numeric.h"
#include "ops/index_tensor.h"

namespace hone::ops::cuda {

class StagedLists {
 public:
  // A list of int32; the number by which of() knows it.
  std::size_t add(const std::vector<std::int64_t>& values) {
    begins_.push_back(all_.size());
    for (const std::int64_t one : values) all_.push_back(base::narrow<std::int32_t>(one));
    sizes_.push_back(values.size());
    return begins_.size() - 1;
  }
  // A list of int64, none of them negative: of(list).view(at::kLong). A number takes two places, the upper half behind
  // the lower one, since every host of a GPU is little-endian.
  std::size_t add_wide(const std::vector<std::int64_t>& values) {
    if (all_.size() % 2 != 0) all_.push_back(0);
    begins_.push_back(all_.size());
    for (const std::int64_t one : values) {
      all_.push_back(base::narrow<std::int32_t>(one));
      all_.push_back(0);
    }
    sizes_.push_back(2 * values.size());
    return begins_.size() - 1;
  }
  void send(at::Device device) { sent_ = staged(at::tensor(all_, at::kInt), device); }
  // [n] int32, after send().
  at::Tensor of(std::size_t list) const {
    return sent_.narrow(0, static_cast<std::int64_t>(begins_[list]), static_cast<std::int64_t>(sizes_[list]));
  }

 private:
  std::vector<std::int32_t> all_;
  std::vector<std::size_t> begins_, sizes_;
  at::Tensor sent_;
};

}  // namespace hone::ops::cuda
