#include "base/files/crc32c.h"

#include <array>

namespace hone::base {

namespace {

// kTables[k][b]: the register after byte b and k zero bytes; eight tables take eight bytes a round.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    tables[0][b] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc) {
  const auto byte = [&bytes](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  crc = ~crc;
  while (bytes.size() >= 8) {
    crc ^= byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
    crc = kTables[7][crc & 0xFF] ^ kTables[6][crc >> 8 & 0xFF] ^ kTables[5][crc >> 16 & 0xFF] ^
          kTables[4][crc >> 24] ^ kTables[3][byte(4)] ^ kTables[2][byte(5)] ^ kTables[1][byte(6)] ^
          kTables[0][byte(7)];
    bytes = bytes.subspan(8);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) crc = crc >> 8 ^ kTables[0][(crc ^ byte(i)) & 0xFF];
  return ~crc;
}

std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc) {
  return crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())), crc);
}

}  // namespace hone::base
