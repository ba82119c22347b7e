// What Examples read and ExampleWriter writes: the bytes of data/examples.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/examples.h"

namespace hone::data {

inline constexpr std::string_view kTokenMagic = "HONETOK3";

struct TokenFooter {
  std::uint64_t bytes = 0, examples = 0, tokens = 0;
  std::uint32_t key = 0, facts = 0, unused = 0, crc = 0;
};
static_assert(sizeof(TokenFooter) == 40 && sizeof(ExampleEntry) == 24, "written as they are");

constexpr std::size_t padding(std::size_t size, std::size_t unit) {
  return (unit - size % unit) % unit;
}
// Bytes of a token, with its flag and perhaps its label. An example's bytes divided by these, rounded down,
// are its tokens.
constexpr std::size_t token_bytes(bool own_labels) {
  return own_labels ? 9 : 5;
}
constexpr std::size_t example_bytes(std::size_t tokens, bool own_labels) {
  const std::size_t bytes = token_bytes(own_labels) * tokens;
  return bytes + padding(bytes, 4);
}

struct Examples::Source {
  std::optional<base::MappedFile> file;
  std::vector<std::byte> held;  // without a file
  std::vector<ExampleEntry> held_entries;
  std::span<const std::byte> bytes;  // of all examples
  std::span<const ExampleEntry> entries;
};

}  // namespace hone::data
