// Records read and RecordWriter writes the bytes of data/records/records.h, which are laid out here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "data/records/records.h"

namespace hone::data {

inline constexpr std::string_view kTokenMagic = "HONETOK4";

struct TokenFooter {
  std::uint64_t bytes = 0, records = 0, tokens = 0;
  std::uint32_t key = 0, facts = 0, unused = 0, crc = 0;
};
static_assert(sizeof(TokenFooter) == 40 && sizeof(RecordEntry) == 24 && sizeof(Sequence) == 12,
              "written as they are");

constexpr std::size_t padding(std::size_t size, std::size_t unit) {
  return (unit - size % unit) % unit;
}
// Return the bytes before a record's tokens, and those of each token, with its flag and perhaps its label.
// What is behind the head, divided by these and rounded down, are the record's tokens.
constexpr std::size_t head_bytes(const RecordEntry& entry) {
  return ((entry.says & kMargin) != 0 ? sizeof(double) : 0) + entry.sequences * sizeof(Sequence);
}
constexpr std::size_t token_bytes(const RecordEntry& entry) {
  return (entry.says & kOwnLabels) != 0 ? 9 : 5;
}

struct Records::Source {
  std::optional<base::MappedFile> file;
  std::vector<std::byte> held;  // without a file
  std::vector<RecordEntry> held_entries;
  std::span<const std::byte> bytes;  // of all records
  std::span<const RecordEntry> entries;
};

}  // namespace hone::data
