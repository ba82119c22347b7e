// Tokenized rows, in memory or in a mapped file, read alike.
//
// The file of a RecordWriter, little-endian:
//
//   "HONETOK4"
//   of each record:  f64 margin where it has one,
//                    u32 part, u32 tokens, u32 completion of each sequence that has a name (data/records/record.h),
//                    i32 ids[n], i32 labels[n] where it has its own, u8 supervised[n],
//                    zeros up to a multiple of 4
//   zeros up to a multiple of 8
//   of each record:  i64 row, i64 end (of its bytes, from the first record's first), i32 scored,
//                    u16 named sequences, u16 1 own labels + 2 a margin + 4 a mark + 8 desirable
//   the key (what the tokens are made of, as text), the facts (JSON)
//   u64 bytes of all records, u64 records, u64 tokens, u32 bytes of the key, u32 bytes of the facts, u32 0,
//   u32 CRC-32C of all before it
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "data/records/record.h"

namespace hone::data {

// Where a record is, and what is known of it without its tokens.
struct RecordEntry {
  std::int64_t row = 0;
  std::int64_t end = 0;
  std::int32_t scored = 0;      // targets; the first token is none
  std::uint16_t sequences = 0;  // 0: one, which is Part::kWhole
  std::uint16_t says = 0;       // kOwnLabels ...
};
inline constexpr std::uint16_t kOwnLabels = 1, kMargin = 2, kMarked = 4, kDesirable = 8;

// Copies share the tokens, which are not changed. Of a mapped file only those pages are in memory that were
// read since release(), and the system may take these.
class Records {
 public:
  Records() = default;
  Records(const std::vector<Record>& records);  // NOLINT(google-explicit-constructor): a few
  Records(std::initializer_list<Record> records) : Records(std::vector<Record>(records)) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  RecordView operator[](std::size_t index) const;  // valid while a copy of these records lives
  // Of the entry alone: no token is read.
  std::int64_t tokens(std::size_t index) const;
  std::int64_t scored(std::size_t index) const;
  std::size_t sequences(std::size_t index) const;  // that have a name
  // take(record) for each, in order, each valid until the next; a mapped file's pages are released behind it.
  void for_each(const std::function<void(const RecordView&)>& take) const;
  // The tokens of a record are not needed for now.
  void release(std::size_t index) const;

  // Record i is now what order[i] was; order: a permutation of all records, which have one source.
  void reorder(const std::vector<std::int64_t>& order);
  void append(Records more);  // `more` after these

 private:
  friend class RecordWriter;
  friend struct TokenFile;
  struct Source;
  struct Run {
    std::shared_ptr<const Source> source;
    std::vector<std::uint32_t> order;  // empty: as the source has them
    std::size_t first = 0;             // record of these
  };
  struct Place {
    const Source* source;
    std::size_t index;
  };

  explicit Records(std::shared_ptr<const Source> source);
  Place place(std::size_t index) const;

  std::vector<Run> parts_;
  std::size_t size_ = 0;
};

// A file that a RecordWriter kept.
struct TokenFile {
  Records records;
  std::string facts;

  // nullopt: of another key, damaged, cut. Reads all of it once. UserError when it cannot be opened.
  static std::optional<TokenFile> open(const base::fs::path& path, const std::string& key);
};

}  // namespace hone::data
