// Packing, the results of TRL's pack_dataset (trl/data_utils.py, _pack_bfd and _pack_wrapped), and the batch that
// rows become (DataCollatorForLanguageModeling with padding_free).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/records/records.h"

namespace hone::data {

// Training rows: one record each, or several packed together. 8 bytes a row and 4 a member.
class PackedRows {
 public:
  PackedRows() = default;
  // Indices of each row's records.
  explicit PackedRows(const std::vector<std::vector<std::int64_t>>& rows);

  std::size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  // Indices into the records, in order.
  std::span<const std::uint32_t> members(std::size_t row) const;

  void add_member(std::int64_t record);  // to the row that is being made
  void end_row();
  // Row i is now what order[i] was.
  void reorder(const std::vector<std::int64_t>& order);
  void append(const PackedRows& more, std::int64_t records_before);  // its members are after those records

 private:
  std::vector<std::uint32_t> members_;
  std::vector<std::uint64_t> ends_;
};

// Returns the tokens of all members of a row.
std::int64_t row_tokens(const Records& records, const PackedRows& rows, std::size_t row);

// One row a record.
PackedRows no_packing(const Records& records);

// Bins of at most max_length tokens, in TRL's order: bins as they were opened, members as they were put in.
// TRL packs within chunks of 1,000 records (datasets.map(batched)); so no bin spans two chunks. Records
// without a token are left out. No record may be longer than max_length (tokenize_rows has cut them):
// InternalError.
PackedRows pack_bfd(const Records& records, std::int64_t max_length);

// Records that packing cut, and the rows of them.
struct PackedRecords {
  Records records;
  PackedRows rows;
};

// TRL's "bfd_split": a record longer than max_length is cut into fragments of max_length and a rest, which
// are packed like records. A fragment's first token is no target. `most_memory`: of the fragments
// (data/records/record_writer.h).
inline constexpr std::size_t kPackingMemory = std::size_t{64} << 20;
PackedRecords pack_bfd_split(const Records& records, std::int64_t max_length,
                             std::size_t most_memory = kPackingMemory);

// TRL's "wrapped": the records of a chunk of 1,000 are concatenated and cut every max_length tokens, so that
// a row may begin within a record. A row is one segment: its tokens attend to the records before theirs, as
// in TRL.
PackedRecords pack_wrapped(const Records& records, std::int64_t max_length,
                           std::size_t most_memory = kPackingMemory);

// Concatenates the rows `which` (indices into `rows`). Each record is its own segment.
void append_row(const Records& records, const PackedRows& rows, std::int64_t row, Batch& batch);
Batch make_batch(const Records& records, const PackedRows& rows, const std::vector<std::int64_t>& which);

}  // namespace hone::data
