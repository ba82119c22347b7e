// The flat buffer of full fine-tuning in parts: neighboring tensors of one layer, or of none.
#pragma once

#include <cstdint>
#include <vector>

#include "learn/optimizer.h"

namespace hone::train {

struct FlatPart {
  std::int64_t layer = 0;             // learn::kNoPart: outside the layers
  std::int64_t offset = 0, size = 0;  // elements
  std::size_t first = 0, count = 0;   // tensors of the layout
  bool outside() const { return layer == learn::kNoPart; }
};
// In the buffer's order.
std::vector<FlatPart> flat_parts(const learn::FlatLayout& layout);

// Returns what rank `rank` of `ranks` keeps of the parts: its share of each, as parallel::Ranks::part_of
// divides it.
std::vector<learn::FlatRange> own_ranges(const std::vector<FlatPart>& parts, int rank, int ranks);

}  // namespace hone::train
