// Writing a GGUF, version 3, in one pass: header and tables at once, then the tensors' bytes as they are
// made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/gguf.h"

namespace hone::base {

// GGUF keeps the width of a number, and readers insist on it.
using GgufWritten = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::int32_t>,
                                 std::vector<std::string>>;

struct GgufEntry {
  std::string key;
  GgufWritten value;
};

struct GgufPlanned {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<std::int64_t> shape;  // row-major, outermost first
  std::uint64_t bytes() const;      // of its data, without padding
};

// The file appears whole, on finish(), or not at all (FileWriter). Nothing but what is being written is held.
class GgufWriter {
 public:
  // Writes everything before the data. UserError when the file cannot be made.
  GgufWriter(fs::path path, std::span<const GgufEntry> metadata, std::vector<GgufPlanned> tensors);
  // The next bytes of the tensors, in their order; a tensor may come in pieces, a piece belongs to one
  // tensor.
  void append(std::span<const std::byte> bytes);
  void finish();  // InternalError unless every tensor is there

 private:
  std::vector<GgufPlanned> tensors_;
  std::string head_;
  FileWriter file_;
  std::size_t tensor_ = 0;     // the one being written
  std::uint64_t written_ = 0;  // of it
};

}  // namespace hone::base
