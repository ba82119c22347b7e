#include "rollout/kv_memory.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model/config/mixer.h"
#include "model/key_shape.h"
#include "ops/kv_tiles.h"
#include "ops/sampling/paged_attention.h"

namespace hone::rollout {

KvCosts::KvCosts(const model::ModelConfig& config, at::ScalarType dtype, at::Device device)
    : is_pooled_(ops::pools_keys(device)), is_paged_(is_pooled_) {
  std::int64_t columns = 0;  // of keys, in all layers that have their own
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const model::Mixer& mixer = config.mixer(i);
    state_ += mixer.state_bytes(config, dtype);
    const std::int64_t of_layer = mixer.key_columns(config, i);
    if (of_layer == 0) continue;
    columns += of_layer;
    is_paged_ = is_paged_ && ops::attends_to_pages(model::key_shape(config, i, dtype), device);
  }
  tile_ = ops::kKvTile * 2 * columns * static_cast<std::int64_t>(at::elementSize(dtype));
}

std::int64_t KvCosts::grown(std::int64_t tiles, std::int64_t length, std::int64_t reading, std::int64_t total,
                            std::int64_t piece) const {
  if (is_paged_) return ops::tiles_for(total);
  piece = std::max<std::int64_t>(1, piece);
  if (tiles == 0) {
    if (is_pooled_) return ops::tiles_for(total);
    length = std::min(reading, piece);
    reading -= length;
    tiles = ops::tiles_for(length + 1);
  }
  while (reading > 0) {
    const std::int64_t count = std::min(reading, piece);
    length += count;
    reading -= count;
    if (ops::tiles_for(length) > tiles) tiles = std::max(ops::tiles_for(length), 2 * tiles);
  }
  while (tiles < ops::tiles_for(total)) tiles *= 2;
  return tiles;
}

bool attends_as_trained(at::Device device) {
  return !ops::pools_keys(device);
}

KvBytes kv_bytes(const model::ModelConfig& config, at::ScalarType dtype, std::int64_t prompt_tokens,
                 const GenerateOptions& options, at::Device device) {
  const KvCosts costs(config, dtype, device);
  const std::int64_t own = options.share_prompt ? 0 : prompt_tokens;
  return {
      .prompt = options.share_prompt ? costs.bytes(ops::tiles_for(prompt_tokens), 1) : 0,
      .sample = costs.bytes(costs.grown(0, 0, own, own + options.max_new_tokens, options.prefill_tokens), 1)};
}

}  // namespace hone::rollout
