// Texts of any bytes as one message: each with its length before it.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"

namespace hone::parallel {

inline void append_text(std::string& out, std::string_view text) {
  const auto length = static_cast<std::uint64_t>(text.size());
  out.append(reinterpret_cast<const char*>(&length), sizeof length);
  out += text;
}

// Takes the first text off `bytes`; an InternalError of `where` when there is none.
inline std::string take_text(std::string_view& bytes, std::string_view where) {
  std::uint64_t length = 0;
  const bool begun = bytes.size() >= sizeof length;
  if (begun) std::memcpy(&length, bytes.data(), sizeof length);
  base::require(begun && bytes.size() - sizeof length >= length, where, "one more text in a rank's message");
  std::string text(bytes.substr(sizeof length, length));
  bytes.remove_prefix(sizeof length + length);
  return text;
}

}  // namespace hone::parallel
