// The bytes of the system's pages, of which mappings and advice about them are whole multiples.
#pragma once

#include <unistd.h>

#include <cstddef>

namespace hone::base {

inline std::size_t page_size() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace hone::base
