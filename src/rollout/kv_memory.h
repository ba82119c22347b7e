// How much memory the keys and values of live sequences may take.
#pragma once

#include <cstdint>

#include "model/causal_lm.h"
#include "rollout/completion.h"

namespace hone::rollout {

// Bytes of the cache of one sequence when prompt and max_new_tokens are all there: tiles of 64 tokens, grown
// by doubling from the first piece of the prompt (ops/kv_tiles.h).
std::int64_t kv_bytes(const model::ModelConfig& config, at::ScalarType dtype, std::int64_t prompt_tokens,
                      const GenerateOptions& options);

// options.kv_memory, or when that is 0 half of what is free.
std::int64_t kv_limit(const GenerateOptions& options);

}  // namespace hone::rollout
