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

inline constexpr std::string_view kTokenMagic = "HONETOK2";

struct TokenFooter {
  std::uint64_t bytes = 0, examples = 0, tokens = 0;
  std::uint32_t key = 0, facts = 0, unused = 0, crc = 0;
};
static_assert(sizeof(TokenFooter) == 40 && sizeof(ExampleEntry) == 24, "written as they are");

constexpr std::size_t padding(std::size_t size, std::size_t unit) {
  return (unit - size % unit) % unit;
}
// Bytes of an example of n tokens; n is their fifth, rounded down.
constexpr std::size_t example_bytes(std::size_t tokens) {
  return 5 * tokens + padding(5 * tokens, 4);
}

struct Examples::Source {
  std::optional<base::MappedFile> file;
  std::vector<std::byte> held;  // without a file
  std::vector<ExampleEntry> held_entries;
  std::span<const std::byte> bytes;  // of all examples
  std::span<const ExampleEntry> entries;
};

}  // namespace hone::data
