// The typed doors of GgufFile, and dequantization.
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/gguf/ggml_types.h"
#include "base/gguf/gguf.h"
#include "base/gguf/k_blocks.h"
#include "base/half.h"
#include "base/strings/suggest.h"

namespace hone::base {

namespace {

using Metadata = std::map<std::string, GgufValue, std::less<>>;

const GgufValue* look_up(const Metadata& metadata, std::string_view key) {
  const auto it = metadata.find(key);
  return it == metadata.end() ? nullptr : &it->second;
}

const char* kind_of(const GgufValue& value) {
  constexpr const char* kKinds[] = {"a whole number",   "a whole number",   "a float",
                                    "a boolean",        "a string",         "a list of integers",
                                    "a list of floats", "a list of strings"};
  static_assert(std::size(kKinds) == std::variant_size_v<GgufValue>);
  return kKinds[value.index()];
}

[[noreturn]] void refuse_kind(const fs::path& path, std::string_view key, const char* expected,
                              const GgufValue& value) {
  throw UserError({.where = path.string() + ": metadata " + std::string(key),
                   .expected = expected,
                   .found = kind_of(value),
                   .cause = "a faulty converter",
                   .fix = "convert the model with a current release of llama.cpp"});
}

const GgufValue& present(const GgufFile& file, std::string_view key, const char* expected) {
  if (const GgufValue* value = look_up(file.metadata(), key)) return *value;
  std::vector<std::string> keys;
  for (const auto& [name, value] : file.metadata()) keys.push_back(name);
  throw UserError({.where = file.path().string() + ": metadata " + std::string(key),
                   .expected = expected,
                   .found = "no such key." + did_you_mean(key, keys),
                   .cause = "another architecture, or an old converter",
                   .fix = "convert the model with a current release of llama.cpp"});
}

std::int64_t to_int(const fs::path& path, std::string_view key, const GgufValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<std::uint64_t>(&value)) {
    if (std::in_range<std::int64_t>(*number)) return static_cast<std::int64_t>(*number);
  }
  refuse_kind(path, key, "a whole number below 2^63", value);
}

double to_float(const fs::path& path, std::string_view key, const GgufValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return static_cast<double>(*number);
  refuse_kind(path, key, "a number", value);
}

std::uint16_t read_u16(const std::byte* at) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(at[0]) | std::to_integer<unsigned>(at[1]) << 8);
}

// The 32 values of a Q4_0 or Q4_1 block: low nibbles are elements 0..15, high ones 16..31. Nibble times scale
// is exact in float, so a fused multiply-add cannot change Q4_1.
template <typename Value>
void unpack_nibbles(const std::byte* nibbles, float* out, Value value) {
  for (std::size_t j = 0; j < 16; ++j) {
    const auto byte = std::to_integer<int>(nibbles[j]);
    out[j] = value(byte & 0x0F);
    out[j + 16] = value(byte >> 4);
  }
}

}  // namespace

std::int64_t GgufTensor::numel() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent == 0 ? 0 : extent;
  return count;
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  for (const GgufTensor& tensor : tensors_) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

bool GgufFile::has(std::string_view key) const {
  return look_up(metadata_, key) != nullptr;
}

std::string GgufFile::require_string(std::string_view key) const {
  const GgufValue& value = present(*this, key, "a string");
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  refuse_kind(path(), key, "a string", value);
}

std::int64_t GgufFile::require_int(std::string_view key) const {
  return to_int(path(), key, present(*this, key, "a whole number"));
}

double GgufFile::require_float(std::string_view key) const {
  return to_float(path(), key, present(*this, key, "a number"));
}

std::int64_t GgufFile::int_or(std::string_view key, std::int64_t fallback) const {
  const GgufValue* value = look_up(metadata_, key);
  return value == nullptr ? fallback : to_int(path(), key, *value);
}

double GgufFile::float_or(std::string_view key, double fallback) const {
  const GgufValue* value = look_up(metadata_, key);
  return value == nullptr ? fallback : to_float(path(), key, *value);
}

bool GgufFile::bool_or(std::string_view key, bool fallback) const {
  const GgufValue* value = look_up(metadata_, key);
  if (value == nullptr) return fallback;
  if (const auto* flag = std::get_if<bool>(value)) return *flag;
  refuse_kind(path(), key, "a boolean", *value);
}

const std::vector<std::string>* GgufFile::strings(std::string_view key) const {
  const GgufValue* value = look_up(metadata_, key);
  if (value == nullptr) return nullptr;
  if (const auto* list = std::get_if<std::vector<std::string>>(value)) return list;
  refuse_kind(path(), key, "a list of strings", *value);
}

const std::vector<std::int64_t>* GgufFile::ints(std::string_view key) const {
  const GgufValue* value = look_up(metadata_, key);
  if (value == nullptr) return nullptr;
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(value)) return list;
  refuse_kind(path(), key, "a list of integers", *value);
}

void dequantize(const GgufTensor& tensor, std::span<float> out) {
  const GgmlTypeInfo* info = find_ggml_type(static_cast<std::uint32_t>(tensor.type));
  require(info != nullptr && std::cmp_equal(out.size(), tensor.numel()) &&
              tensor.bytes.size() == out.size() / info->elements * info->bytes,
          "dequantize", "room for every element of " + tensor.name);
  if (out.empty()) return;
  if (tensor.type == GgmlType::kF32) {
    std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
    return;
  }
  const std::byte* block = tensor.bytes.data();
  for (std::size_t i = 0; i < out.size(); i += info->elements, block += info->bytes) {
    const float first = half_to_float(read_u16(block));  // the value, or the block's scale
    switch (tensor.type) {
      case GgmlType::kF16:
        out[i] = first;
        break;
      case GgmlType::kBF16:
        out[i] = bf16_to_float(read_u16(block));
        break;
      case GgmlType::kQ8_0:
        for (std::size_t j = 0; j < 32; ++j) {
          out[i + j] = static_cast<float>(static_cast<std::int8_t>(block[2 + j])) * first;
        }
        break;
      case GgmlType::kQ4_0:
        unpack_nibbles(block + 2, &out[i], [first](int q) { return static_cast<float>(q - 8) * first; });
        break;
      case GgmlType::kQ4_1: {
        const float minimum = half_to_float(read_u16(block + 2));
        unpack_nibbles(block + 4, &out[i],
                       [first, minimum](int q) { return static_cast<float>(q) * first + minimum; });
        break;
      }
      case GgmlType::kQ5_0: {
        std::uint32_t fifth = 0;
        std::memcpy(&fifth, block + 2, 4);
        for (std::size_t j = 0; j < 32; ++j) {
          const auto low = std::to_integer<unsigned>(block[6 + j % 16] >> (j < 16 ? 0 : 4)) & 0x0FU;
          out[i + j] = static_cast<float>(static_cast<int>(low | (fifth >> j & 1U) << 4) - 16) * first;
        }
        break;
      }
      case GgmlType::kQ4_K:
        dequantize_q4_k(block, &out[i]);
        break;
      case GgmlType::kQ5_K:
        dequantize_q5_k(block, &out[i]);
        break;
      case GgmlType::kQ6_K:
        dequantize_q6_k(block, &out[i]);
        break;
      case GgmlType::kF32:
        break;
    }
  }
}

}  // namespace hone::base
