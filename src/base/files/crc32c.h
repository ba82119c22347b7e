// CRC-32C (Castagnoli, polynomial 0x1EDC6F41 reflected), as TFRecord and iSCSI use it: crc of "123456789" is
// 0xE3069283. TFRecord's masked form belongs to its writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hone::base {

// To continue with more bytes, pass the last result as `crc`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);
std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc = 0);

}  // namespace hone::base
