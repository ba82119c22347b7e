// The layer that a tensor belongs to, by Hugging Face's name of it or PEFT's.
#pragma once

#include <charconv>
#include <cstdint>
#include <string_view>

namespace hone::model {

// Returns 12 for "model.layers.12.mlp.up_proj.weight"; -1 outside the layers.
inline std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kMark = "layers.";
  std::int64_t layer = -1;
  if (const std::size_t at = name.find(kMark); at != std::string_view::npos)
    std::from_chars(name.data() + at + kMark.size(), name.data() + name.size(), layer);
  return layer;
}

}  // namespace hone::model
