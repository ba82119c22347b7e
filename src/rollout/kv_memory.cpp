#include "rollout/kv_memory.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model/layers/decoder_layer.h"
#include "ops/delta_rule.h"
#include "ops/kv_tiles.h"
#include "ops/machine/device_memory.h"
#include "ops/short_conv.h"

namespace hone::rollout {

KvBytes kv_bytes(const model::ModelConfig& config, at::ScalarType dtype, std::int64_t prompt_tokens,
                 const GenerateOptions& options, at::Device device) {
  const auto tiles = [](std::int64_t tokens) { return (tokens + ops::kKvTile - 1) / ops::kKvTile; };
  std::int64_t columns = 0;  // of keys, in all layers that have their own
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const model::LayerAttention attention = config.attention_of(i);
    if (config.kind_of(i) == model::LayerKind::kAttention && attention.has_keys())
      columns += attention.kv_heads * attention.head_dim;
  }
  const std::int64_t tile = ops::kKvTile * 2 * columns * static_cast<std::int64_t>(at::elementSize(dtype));
  const std::int64_t own = options.share_prompt ? 0 : prompt_tokens;
  const std::int64_t whole = tiles(own + options.max_new_tokens);
  const std::int64_t first = std::min(own, std::max<std::int64_t>(1, options.prefill_tokens));
  std::int64_t room = ops::pools_keys(device) ? whole : tiles(first + 1);
  while (room < whole) room *= 2;
  // of every sequence, however long it is
  const std::int64_t convolutions = config.layers_of(model::LayerKind::kShortConv),
                     delta_rules = config.layers_of(model::LayerKind::kDeltaRule);
  std::int64_t inputs = 0;
  if (convolutions > 0)
    inputs += convolutions * ops::ConvInputs::bytes(config.hidden_size, config.conv_taps, dtype);
  if (delta_rules > 0)
    inputs += delta_rules * ops::DeltaState::bytes(model::delta_shape(config), config.delta.taps, dtype);
  return {.prompt = options.share_prompt ? tiles(prompt_tokens) * tile + inputs : 0,
          .sample = room * tile + inputs,
          .prompt_room = options.share_prompt ? tiles(prompt_tokens) * ops::kKvTile : 0,
          .sample_room = room * ops::kKvTile};
}

std::int64_t first_room(std::int64_t prompt_tokens, const GenerateOptions& options, at::Device device) {
  if (!ops::pools_keys(device)) return 0;
  return (options.share_prompt ? 0 : prompt_tokens) + options.max_new_tokens;
}

std::int64_t kv_limit(const GenerateOptions& options, at::Device device) {
  return options.kv_memory > 0 ? options.kv_memory : ops::device_memory(device).free / 2;
}

}  // namespace hone::rollout
