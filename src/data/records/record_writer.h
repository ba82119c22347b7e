// Records as they are made: in memory while they are few, then in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "data/records/records.h"

namespace hone::data {

struct RecordPlace {
  base::fs::path kept = {};       // the file that later runs read (data/forms/token_cache.h); empty: none
  std::string key = {};           // of that file
  std::int64_t least_tokens = 0;  // fewer are not kept
  std::size_t most_memory = std::size_t{64} << 20;  // bytes; more go to a file
};

class ByteSink;

class RecordWriter {
 public:
  explicit RecordWriter(RecordPlace place = {});
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // One flag a token: InternalError. UserError, of a file: no room for it, naming the folder. Where the file
  // to keep cannot be made it is one without a name in the system's folder for temporary files (TMPDIR),
  // which is gone with its last reader.
  void add(const RecordView& record);
  std::int64_t tokens() const { return tokens_; }
  // Returns what was added; `facts` are for TokenFile. Once, as the last call. The file is kept, if it can
  // be, when there are enough tokens.
  Records finish(std::string_view facts = {});
  bool kept() const { return kept_; }  // after finish()

 private:
  void put(std::span<const std::byte> bytes);
  void flush();
  void spill();
  void put_end(std::string_view facts);
  Records in_memory(std::string_view facts);

  RecordPlace place_;
  std::vector<std::byte> buffer_;  // what no file has yet: all of it, while there is none
  std::vector<RecordEntry> entries_;
  std::unique_ptr<ByteSink> sink_;  // null: in memory
  std::int64_t bytes_ = 0, tokens_ = 0;
  std::uint32_t crc_ = 0;
  bool kept_ = false;
};

using TakeRecord = std::function<void(const Record&)>;

// Records, and what was counted while they were made.
template <typename Facts>
struct Made {
  Records records;
  Facts facts;
};

// All rows at once, by what makes records of blocks.
template <typename Maker, typename RowsOfForm>
auto make_all(Maker maker, const RowsOfForm& rows) {
  RecordWriter writer;
  const TakeRecord take = [&writer](const Record& record) { writer.add(view(record)); };
  maker.add(rows, take);
  auto facts = maker.finish(take);
  return Made<decltype(facts)>{.records = writer.finish(), .facts = std::move(facts)};
}

}  // namespace hone::data
