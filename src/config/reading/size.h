// Parses sizes of memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hone::config {

// "2.05GB" -> 2'050'000'000, "900 MiB" -> 943'718'400, "4096" -> 4096; "" -> 0. Units are case-insensitive:
// B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB. UserError naming `where` for anything else.
std::int64_t size_in_bytes(std::string_view text, const std::string& where);

}  // namespace hone::config
