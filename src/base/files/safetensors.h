// safetensors: 8 bytes little-endian header length, a JSON header, then the tensors' bytes without gaps.
// Reading maps the file and checks every offset before it returns a span: in range, in order, without overlap
// or gap, and of exactly the size that dtype and shape imply. A violation is a UserError that names file and
// tensor. Tensors of zero elements are legal. Spans are aligned as in the file, possibly to one byte only;
// Hugging Face's writers and ours align the data section to 8.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/files/file.h"

namespace hone::base {

// A tensor as stored in a file. `bytes` is valid while the SafetensorsFile lives.
struct StoredTensor {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

class SafetensorsFile {
 public:
  static SafetensorsFile open(const fs::path& path);

  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in order of offset
  const StoredTensor* find(std::string_view name) const;                 // nullptr when absent
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const fs::path& path() const { return file_.path(); }

 private:
  explicit SafetensorsFile(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

// Writes `tensors` in the given order; header as Hugging Face writes it ("__metadata__" first, padded with
// spaces to 8 bytes). Through FileWriter: an old file is replaced atomically or, on any error, left
// unchanged. InternalError when a tensor's bytes do not fit its dtype and shape, or a name occurs twice.
void write_safetensors(const fs::path& path, std::span<const StoredTensor> tensors,
                       const std::map<std::string, std::string>& metadata);

struct TensorHeader {
  std::string name;
  DType dtype;
  std::vector<std::int64_t> shape;
};
using TakeBytes = std::function<void(std::span<const std::byte>)>;
// The same, with one tensor at a time in memory: write(i, take) gives the bytes of tensor i to `take`, in any pieces.
void write_safetensors(const fs::path& path, std::span<const TensorHeader> tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void(std::size_t index, const TakeBytes& take)>& write);

}  // namespace hone::base
