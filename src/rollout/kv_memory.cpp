#include "rollout/kv_memory.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "ops/device_memory.h"
#include "ops/kv_tiles.h"

namespace hone::rollout {

KvBytes kv_bytes(const model::ModelConfig& config, at::ScalarType dtype, std::int64_t prompt_tokens,
                 const GenerateOptions& options) {
  const auto tiles = [](std::int64_t tokens) { return (tokens + ops::kKvTile - 1) / ops::kKvTile; };
  const std::int64_t tile = ops::kKvTile * 2 * config.num_hidden_layers * config.num_key_value_heads *
                            config.head_dim * static_cast<std::int64_t>(at::elementSize(dtype));
  const std::int64_t own = options.share_prompt ? 0 : prompt_tokens;
  const std::int64_t whole = tiles(own + options.max_new_tokens);
  const std::int64_t first = std::min(own, std::max<std::int64_t>(1, options.prefill_tokens));
  std::int64_t room = tiles(first + 1);
  while (room < whole) room *= 2;
  return {.prompt = options.share_prompt ? tiles(prompt_tokens) * tile : 0, .sample = room * tile};
}

std::int64_t kv_limit(const GenerateOptions& options, at::Device device) {
  return options.kv_memory > 0 ? options.kv_memory : ops::device_memory(device).free / 2;
}

}  // namespace hone::rollout
