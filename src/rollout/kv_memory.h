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
  std::int64_t prompt_room = 0, sample_room = 0;  // tokens of the two, as keys and values have room for
};

// Tiles of 64 tokens, grown by doubling from the first tokens that are read; a shared prompt has room from
// the start for as many as it needs (ops/kv_tiles.h), and so has every sequence on a device whose backend keeps keys and
// values of many sequences in one memory.
KvBytes kv_bytes(const model::ModelConfig& config, at::ScalarType dtype, std::int64_t prompt_tokens,
                 const GenerateOptions& options, at::Device device = at::kCPU);

// The tokens that a sequence has room for from the start there, without those of a shared prompt; 0: it grows.
std::int64_t first_room(std::int64_t prompt_tokens, const GenerateOptions& options, at::Device device);

// options.kv_memory, or when that is 0 half of what is free on `device`.
std::int64_t kv_limit(const GenerateOptions& options, at::Device device = at::kCPU);

}  // namespace hone::rollout
