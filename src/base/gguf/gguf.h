// GGUF, versions 2 and 3: metadata and quantized tensors of llama.cpp.
// Every length, count, offset and type is checked against the file's size before it is used; an inconsistent
// file is a UserError that names the entry.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/files/file.h"

namespace hone::base {

// The block formats hone reads; values are GGML's own type numbers.
enum class GgmlType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30
};

struct GgufTensor {
  std::string name;  // "blk.0.attn_q.weight"
  GgmlType type;
  std::vector<std::int64_t> shape;  // row-major, outermost first (the reverse of GGUF's own order)
  std::span<const std::byte> bytes;
  std::int64_t numel() const;
};

using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string,
                               std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>;

class GgufFile {
 public:
  static GgufFile open(const fs::path& path);

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find(std::string_view name) const;
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const fs::path& path() const { return file_.path(); }

  // Typed metadata; the `require_` forms throw UserError naming the key, the others return the fallback.
  std::string require_string(std::string_view key) const;
  std::int64_t require_int(std::string_view key) const;
  double require_float(std::string_view key) const;
  std::int64_t int_or(std::string_view key, std::int64_t fallback) const;
  double float_or(std::string_view key, double fallback) const;
  bool bool_or(std::string_view key, bool fallback) const;
  const std::vector<std::string>* strings(std::string_view key) const;  // nullptr when absent
  const std::vector<std::int64_t>* ints(std::string_view key) const;    // nullptr when absent
  bool has(std::string_view key) const;

 private:
  explicit GgufFile(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
};

// Dequantizes a whole tensor into `out` (numel floats), exactly as ggml's dequantize_row_* do.
void dequantize(const GgufTensor& tensor, std::span<float> out);

}  // namespace hone::base
