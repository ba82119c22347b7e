// Records that are made as they are needed.
#pragma once

#include <vector>

#include "data/files/block_stream.h"
#include "data/records/packing.h"
#include "data/records/records.h"

namespace hone::data {

struct RecordBlock {
  Records records;
  PackedRows rows;
  std::size_t size() const { return rows.size(); }
};

class RecordStream : public BlockStream<RecordBlock> {
 public:
  using BlockStream::BlockStream;
  // Both take rows that are held. Views are valid until the next hold().
  Batch batch(const std::vector<std::int64_t>& which) const;
  std::vector<RecordView> members(std::int64_t row) const;
};

}  // namespace hone::data
