#include "base/gguf/gguf_write.h"

#include <array>
#include <cstring>
#include <ranges>
#include <utility>

#include "base/error.h"
#include "base/gguf/quantize.h"

namespace hone::base {

namespace {

constexpr std::uint64_t kAlignment = 32;  // of tensors, when general.alignment says nothing
// GGUF's numbers of value types.
constexpr std::uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBoolType = 7, kStringType = 8, kArrayType = 9;

std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <typename T>
void put(std::string& out, T value) {
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(T));
  out.append(bytes.data(), bytes.size());
}

void put_text(std::string& out, const std::string& text) {
  put<std::uint64_t>(out, text.size());
  out += text;
}

struct ValueWriter {
  std::string& out;

  void operator()(std::uint32_t value) const {
    put(out, kUint32);
    put(out, value);
  }
  void operator()(float value) const {
    put(out, kFloat32);
    put(out, value);
  }
  void operator()(bool value) const {
    put(out, kBoolType);
    put<std::uint8_t>(out, value ? 1 : 0);
  }
  void operator()(const std::string& value) const {
    put(out, kStringType);
    put_text(out, value);
  }
  void operator()(const std::vector<std::int32_t>& list) const {
    start(kInt32, list.size());
    for (const std::int32_t value : list) put(out, value);
  }
  void operator()(const std::vector<float>& list) const {
    start(kFloat32, list.size());
    for (const float value : list) put(out, value);
  }
  void operator()(const std::vector<std::string>& list) const {
    start(kStringType, list.size());
    for (const std::string& value : list) put_text(out, value);
  }

 private:
  void start(std::uint32_t type, std::size_t count) const {
    put(out, kArrayType);
    put(out, type);
    put<std::uint64_t>(out, count);
  }
};

std::string make_head(std::span<const GgufEntry> metadata, const std::vector<GgufPlanned>& tensors) {
  std::string out = "GGUF";
  put<std::uint32_t>(out, 3);
  put<std::uint64_t>(out, tensors.size());
  put<std::uint64_t>(out, metadata.size());
  for (const GgufEntry& entry : metadata) {
    put_text(out, entry.key);
    std::visit(ValueWriter{out}, entry.value);
  }
  std::uint64_t offset = 0;
  for (const GgufPlanned& tensor : tensors) {
    put_text(out, tensor.name);
    put<std::uint32_t>(out, static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::int64_t extent : std::views::reverse(tensor.shape))
      put<std::uint64_t>(out, static_cast<std::uint64_t>(extent));
    put<std::uint32_t>(out, static_cast<std::uint32_t>(tensor.type));
    put<std::uint64_t>(out, offset);
    offset += padded(tensor.bytes());
  }
  out.resize(padded(out.size()), '\0');
  return out;
}

std::uint64_t size_of(const std::string& head, const std::vector<GgufPlanned>& tensors) {
  std::uint64_t size = head.size();
  for (const GgufPlanned& tensor : tensors) size += padded(tensor.bytes());
  return size;
}

}  // namespace

std::uint64_t GgufPlanned::bytes() const {
  std::uint64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= static_cast<std::uint64_t>(extent);
  return ggml_bytes(type, elements);
}

GgufWriter::GgufWriter(fs::path path, std::span<const GgufEntry> metadata, std::vector<GgufPlanned> tensors)
    : tensors_(std::move(tensors)),
      head_(make_head(metadata, tensors_)),
      file_(std::move(path), size_of(head_, tensors_)) {
  file_.write(head_);
  head_ = {};
}

void GgufWriter::append(std::span<const std::byte> bytes) {
  require(tensor_ < tensors_.size() && written_ + bytes.size() <= tensors_[tensor_].bytes(),
          "GgufWriter::append", "bytes of the next tensor");
  file_.write(bytes);
  written_ += bytes.size();
  if (written_ < tensors_[tensor_].bytes()) return;
  const std::string zeros(padded(written_) - written_, '\0');
  file_.write(zeros);
  ++tensor_;
  written_ = 0;
}

void GgufWriter::finish() {
  require(tensor_ == tensors_.size(), "GgufWriter::finish", "the bytes of every tensor");
  file_.commit();
}

}  // namespace hone::base
