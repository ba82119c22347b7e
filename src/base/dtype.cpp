#include "base/dtype.h"

#include <array>
#include <utility>

#include "base/error.h"

namespace hone::base {

namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<Row, 10> kRows{{{DType::kF64, "F64", 8},
                                     {DType::kF32, "F32", 4},
                                     {DType::kF16, "F16", 2},
                                     {DType::kBF16, "BF16", 2},
                                     {DType::kI64, "I64", 8},
                                     {DType::kI32, "I32", 4},
                                     {DType::kI16, "I16", 2},
                                     {DType::kI8, "I8", 1},
                                     {DType::kU8, "U8", 1},
                                     {DType::kBool, "BOOL", 1}}};

const Row& row_of(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row;
  }
  require(false, "dtype", "a value of the enum DType");
  return kRows[0];
}

}  // namespace

std::size_t size_of(DType dtype) {
  return row_of(dtype).size;
}

std::string_view safetensors_name(DType dtype) {
  return row_of(dtype).name;
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

std::string dtype_names() {
  std::string out;
  for (const Row& row : kRows) {
    if (!out.empty()) out += ", ";
    out += row.name;
  }
  return out;
}

}  // namespace hone::base
