// Best-fit decreasing packing, the result of TRL's pack_dataset(strategy="bfd") (trl/data_utils.py).
#pragma once

#include <cstdint>
#include <vector>

#include "data/example.h"

namespace hone::data {

// A training row: one example, or several packed together.
struct PackedRow {
  std::vector<std::int64_t> members;   // indices into the examples, in order
  std::int64_t tokens = 0;
};

// One row an example.
std::vector<PackedRow> no_packing(const std::vector<Example>& examples);
// Bins of at most max_length tokens; TRL packs within chunks of 1,000 examples (datasets.map(batched)).
std::vector<PackedRow> pack_bfd(const std::vector<Example>& examples, std::int64_t max_length);

// Lays the rows out end to end. Each example is its own segment.
Batch make_batch(const std::vector<Example>& examples, const std::vector<PackedRow>& rows,
                 const std::vector<std::int64_t>& which);

}  // namespace hone::data
