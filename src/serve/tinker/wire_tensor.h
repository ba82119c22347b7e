// Tensors of the messages: bytes to plain vectors.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "serve/tinker/wire.h"

namespace hone::serve {

// UserError where the bytes are no whole number of them; `where` names the field.
template <typename Number>
std::vector<Number> numbers_of(std::string_view bytes, const std::string& where) {
  if (bytes.size() % sizeof(Number) != 0) {
    throw base::UserError({.where = where,
                           .expected = "numbers of " + std::to_string(sizeof(Number)) + " bytes",
                           .found = std::to_string(bytes.size()) + " bytes",
                           .cause = "the tensor has another dtype, or was cut",
                           .fix = {}});
  }
  std::vector<Number> out(bytes.size() / sizeof(Number));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// A Tensor message; `where` names it in UserErrors.
WireTensor read_tensor(std::string_view bytes, const std::string& where);

}  // namespace hone::serve
