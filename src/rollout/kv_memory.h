// How much memory keys and values take.
#pragma once

#include <cstdint>

#include "model/causal_lm.h"
#include "rollout/completion.h"

namespace hone::rollout {

// Says what the keys and values of a model's tokens cost: tiles of 64 tokens in all its layers, and for every
// part of a sequence the states of convolutions and delta rules, however long it is.
class KvCosts {
 public:
  KvCosts(const model::ModelConfig& config, at::ScalarType dtype, at::Device device);

  std::int64_t bytes(std::int64_t tiles, std::int64_t states) const {
    return tiles * tile_ + states * state_;
  }
  bool has_states() const { return state_ > 0; }
  bool is_pooled() const { return is_pooled_; }
  // The capacity in tiles of a cache of so many bytes.
  std::int64_t tiles_in(std::int64_t bytes) const { return tile_ > 0 ? (bytes - state_) / tile_ : 0; }

  // The most tiles that a sequence's own tokens come to. It has room for `tiles` and `length` tokens; then `reading`
  // tokens are read in pieces of at most `piece`, then single ones follow until it has `total`. Tiles grow by doubling
  // from the first tokens that are read (ops/kv_tiles.h). On a device that keeps keys and values of many sequences in one
  // memory a sequence has room for all from the start; in pages it never has more tiles than its tokens fill.
  std::int64_t grown(std::int64_t tiles, std::int64_t length, std::int64_t reading, std::int64_t total,
                     std::int64_t piece) const;

 private:
  std::int64_t tile_ = 0, state_ = 0;
  bool is_pooled_ = false, is_paged_ = false;  // paged: in all layers
};

// Whether the sampler's attention is the trainer's; false: the device keeps keys of many sequences in one memory, and has another kernel
// for them, so that log-probabilities differ by rounding.
bool attends_as_trained(at::Device device);

// Holds the bytes of a prompt's samples when prompt and max_new_tokens are all there.
struct KvBytes {
  std::int64_t prompt = 0;  // once for all samples; 0 unless options.share_prompt
  std::int64_t sample = 0;  // of each of them; with its own copy of the prompt where that is not shared
};
KvBytes kv_bytes(const model::ModelConfig& config, at::ScalarType dtype, std::int64_t prompt_tokens,
                 const GenerateOptions& options, at::Device device = at::kCPU);

}  // namespace hone::rollout
