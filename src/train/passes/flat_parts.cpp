#include "train/passes/flat_parts.h"

#include "parallel/ranks.h"

namespace hone::train {

std::vector<FlatPart> flat_parts(const learn::FlatLayout& layout) {
  std::vector<FlatPart> out;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (i == 0 || layout[i].part != layout[i - 1].part)
      out.push_back({.layer = layout[i].part, .offset = layout[i].offset, .first = i});
    out.back().size += layout[i].size;
    out.back().count += 1;
  }
  return out;
}

std::vector<learn::FlatRange> own_ranges(const std::vector<FlatPart>& parts, int rank, int ranks) {
  std::vector<learn::FlatRange> out;
  for (const FlatPart& part : parts) {
    const parallel::Part own = parallel::part_of(part.size, rank, ranks);
    if (own.end > own.begin) out.push_back({part.offset + own.begin, part.offset + own.end});
  }
  return out;
}

}  // namespace hone::train
