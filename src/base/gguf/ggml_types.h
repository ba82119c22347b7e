// ggml's tensor types: those that hone reads, with their block sizes, and the names of all types for
// messages.
#pragma once

#include <cstdint>
#include <string>

#include "base/gguf/gguf.h"

namespace hone::base {

struct GgmlTypeInfo {
  GgmlType type;
  const char* name;
  std::uint64_t elements;  // of one block
  std::uint64_t bytes;     // of one block
};

const GgmlTypeInfo* find_ggml_type(std::uint32_t number);  // nullptr: a type hone does not read
std::string ggml_type_name(std::uint32_t number);          // "Q4_K", or "77 (unknown)"
std::string ggml_types_read();                             // "F32, F16, ..."

}  // namespace hone::base
