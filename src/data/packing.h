// Packing, the results of TRL's pack_dataset (trl/data_utils.py, _pack_bfd and _pack_wrapped), and the batch that
// rows become (DataCollatorForLanguageModeling with padding_free).
#pragma once

#include <cstdint>
#include <vector>

#include "data/example.h"

namespace hone::data {

// A training row: one example, or several packed together.
struct PackedRow {
  std::vector<std::int64_t> members;  // indices into the examples, in order
  std::int64_t tokens = 0;
};

// One row an example.
std::vector<PackedRow> no_packing(const std::vector<Example>& examples);

// Bins of at most max_length tokens, in TRL's order: bins as they were opened, members as they were put in.
// TRL packs within chunks of 1,000 examples (datasets.map(batched)); so no bin spans two chunks. Examples
// without a token are left out. No example may be longer than max_length (tokenize_rows has cut them):
// InternalError.
std::vector<PackedRow> pack_bfd(const std::vector<Example>& examples, std::int64_t max_length);

// Examples that packing cut, and the rows of them.
struct PackedExamples {
  std::vector<Example> examples;
  std::vector<PackedRow> rows;
};

// TRL's "bfd_split": an example longer than max_length is cut into fragments of max_length and a rest, which are
// packed like examples. A fragment's first token is no target.
PackedExamples pack_bfd_split(std::vector<Example> examples, std::int64_t max_length);

// TRL's "wrapped": the examples of a chunk of 1,000 are concatenated and cut every max_length tokens, so that a row
// may begin within an example. A row is one segment: its tokens attend to the examples before theirs, as in TRL.
PackedExamples pack_wrapped(const std::vector<Example>& examples, std::int64_t max_length);

// Concatenates the rows `which` (indices into `rows`). Each example is its own segment.
Batch make_batch(const std::vector<Example>& examples, const std::vector<PackedRow>& rows,
                 const std::vector<std::int64_t>& which);

}  // namespace hone::data
