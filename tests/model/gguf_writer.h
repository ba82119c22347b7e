// A GGUF version 3 of fp32 tensors, written by tests: header, metadata, tensor table, data aligned to 32
// bytes.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/files/file.h"

namespace hone::test_tools {

using MetaValue = std::variant<std::uint32_t, float, std::string>;

struct GgufWriter {
  std::vector<std::pair<std::string, MetaValue>> metadata;
  std::vector<std::pair<std::string, at::Tensor>> tensors;

  void write(const std::filesystem::path& path) const {
    std::string head = "GGUF", data;
    put<std::uint32_t>(head, 3);
    put<std::uint64_t>(head, tensors.size());
    put<std::uint64_t>(head, metadata.size());
    for (const auto& [key, value] : metadata) {
      put_string(head, key);
      if (const auto* u = std::get_if<std::uint32_t>(&value)) {
        put<std::uint32_t>(head, 4);
        put(head, *u);
      } else if (const auto* f = std::get_if<float>(&value)) {
        put<std::uint32_t>(head, 6);
        put(head, *f);
      } else {
        put<std::uint32_t>(head, 8);
        put_string(head, std::get<std::string>(value));
      }
    }
    for (const auto& [name, tensor] : tensors) {
      const at::Tensor t = tensor.to(at::kFloat).contiguous();
      put_string(head, name);
      put<std::uint32_t>(head, static_cast<std::uint32_t>(t.dim()));
      for (std::int64_t d = t.dim() - 1; d >= 0; --d)
        put<std::uint64_t>(head, static_cast<std::uint64_t>(t.size(d)));
      put<std::uint32_t>(head, 0);  // F32
      put<std::uint64_t>(head, data.size());
      data.append(static_cast<const char*>(t.const_data_ptr()), t.nbytes());
      pad(data);
    }
    pad(head);
    base::write_file_atomic(path, head + data);
  }

 private:
  template <typename T>
  static void put(std::string& out, T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out.append(bytes, sizeof(T));
  }
  static void put_string(std::string& out, const std::string& text) {
    put<std::uint64_t>(out, text.size());
    out += text;
  }
  static void pad(std::string& out) { out.resize((out.size() + 31) / 32 * 32, '\0'); }
};

}  // namespace hone::test_tools
