// How much memory the keys and values of live sequences may take.
#pragma once

#include <cstdint>

#include "model/causal_lm.h"
#include "rollout/completion.h"

namespace hone::rollout {

// Bytes of keys and values when prompt and max_new_tokens are all there.
struct KvBytes {
  std::int64_t prompt = 0;  // once for all samples; 0 unless options.share_prompt
  std::int64_t sample = 0;  // of each of them; with its own copy of the prompt where that is not shared
};

// Tiles of 64 tokens, grown by doubling from the first tokens that are read; a shared prompt has room from
// the start for as many as it needs (ops/kv_tiles.h).
KvBytes kv_bytes(const model::ModelConfig& config, at::ScalarType dtype, std::int64_t prompt_tokens,
                 const GenerateOptions& options);

// options.kv_memory, or when that is 0 half of what is free on `device`.
std::int64_t kv_limit(const GenerateOptions& options, at::Device device = at::kCPU);

}  // namespace hone::rollout
