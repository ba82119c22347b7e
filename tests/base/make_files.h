// Small safetensors and GGUF files, byte by byte, for the readers' tests and the fuzzer.
#pragma once

#include <string>

#include "base/helpers.h"

namespace hone::base {

// `header` is stored as it is, followed by `data`.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  std::string out;
  append_le(out, header.size(), 8);
  return out + header + data;
}

inline std::string gguf_string(const std::string& text) {
  std::string out;
  append_le(out, text.size(), 8);
  return out + text;
}

inline std::string gguf_number(const std::string& key, std::uint32_t type, std::uint64_t value,
                               unsigned bytes) {
  std::string out = gguf_string(key);
  append_le(out, type, 4);
  append_le(out, value, bytes);
  return out;
}

inline std::string gguf_text(const std::string& key, const std::string& value) {
  std::string out = gguf_string(key);
  append_le(out, 8, 4);
  return out + gguf_string(value);
}

// A list whose items are already encoded.
inline std::string gguf_list(const std::string& key, std::uint32_t type, std::uint64_t count,
                             const std::string& items) {
  std::string out = gguf_string(key);
  append_le(out, 9, 4);
  append_le(out, type, 4);
  append_le(out, count, 8);
  return out + items;
}

inline std::string gguf_tensor(const std::string& name, const std::vector<std::uint64_t>& extents,
                               std::uint32_t type, std::uint64_t offset) {
  std::string out = gguf_string(name);
  append_le(out, extents.size(), 4);
  for (const std::uint64_t extent : extents) append_le(out, extent, 8);
  append_le(out, type, 4);
  append_le(out, offset, 8);
  return out;
}

struct GgufParts {
  std::uint32_t version = 3;
  std::vector<std::string> metadata;
  std::vector<std::string> tensors;
  std::string data;
  std::uint64_t alignment = 32;
};

inline std::string gguf_bytes(const GgufParts& parts) {
  std::string out = "GGUF";
  append_le(out, parts.version, 4);
  append_le(out, parts.tensors.size(), 8);
  append_le(out, parts.metadata.size(), 8);
  for (const std::string& entry : parts.metadata) out += entry;
  for (const std::string& tensor : parts.tensors) out += tensor;
  out.resize((out.size() + parts.alignment - 1) / parts.alignment * parts.alignment, '\0');
  return out + parts.data;
}

}  // namespace hone::base
