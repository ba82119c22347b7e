// Writes a GGUF, version 3, in one pass: header and tables first, then the tensors' bytes as they are
// produced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/files/file.h"
#include "base/gguf/gguf.h"

namespace hone::base {

// GGUF stores the width of a number, and readers check it.
using GgufWritten = std::variant<std::uint32_t, float, bool, std::string, std::vector<std::int32_t>,
                                 std::vector<float>, std::vector<std::string>>;

struct GgufEntry {
  std::string key;
  GgufWritten value;
};

struct GgufPlanned {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<std::int64_t> shape;  // row-major, outermost first
  std::uint64_t bytes() const;      // of the data, without padding
};

// The file is written atomically, on finish() (FileWriter). Only the bytes being written are held in memory.
class GgufWriter {
 public:
  // Writes everything before the data. UserError when the file cannot be created.
  GgufWriter(fs::path path, std::span<const GgufEntry> metadata, std::vector<GgufPlanned> tensors);
  // Writes the next bytes of the tensors, in their order. A tensor may be written in pieces; a piece belongs
  // to one tensor.
  void append(std::span<const std::byte> bytes);
  void finish();  // InternalError unless every tensor was written

 private:
  std::vector<GgufPlanned> tensors_;
  std::string head_;
  FileWriter file_;
  std::size_t tensor_ = 0;     // index of the tensor being written
  std::uint64_t written_ = 0;  // bytes of that tensor
};

}  // namespace hone::base
