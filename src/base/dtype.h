// Element types on disk, independent of any tensor library.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hone::base {

enum class DType { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU8, kBool };

std::size_t size_of(DType dtype);                                    // bytes of one element
std::string_view safetensors_name(DType dtype);                      // "F32", "BF16", ...
std::optional<DType> dtype_from_safetensors(std::string_view name);  // nullopt: a type hone does not read
std::string dtype_names();                                           // "F64, F32, ..." for messages

}  // namespace hone::base
