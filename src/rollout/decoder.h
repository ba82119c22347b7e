// One forward of an engine's sequences, and what is drawn from it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/causal_lm.h"
#include "ops/linear.h"
#include "rollout/device_draws.h"
#include "rollout/sampler.h"
#include "rollout/sequence.h"

namespace hone::rollout {

class Decoder {
 public:
  // The model must outlive it.
  Decoder(const model::CausalLm& model, std::int64_t prefill_tokens)
      : model_(model),
        most_(prefill_tokens > 0 ? prefill_tokens : 1),
        draws_(model.device(), model.config().vocab_size) {}

  // Sequences that have read their tokens get one each; the tokens of the others are read in pieces of prefill_tokens,
  // as many as fit into that number together, in order. What several have in common is read once. `has_ended` and
  // `has_new_token` are set. UserError for logits that are not finite: such sequences have ended as cancelled. After
  // another exception caches are as they were, or shorter. A sequence's tokens do not depend on the others here.
  void advance(std::span<Sequence* const> all);

  std::int64_t computed() const { return computed_; }  // tokens so far

 private:
  // A part of a forward: the next tokens of a sequence, or of a node that it reads.
  struct Fed {
    Sequence* sequence = nullptr;
    KeyNode* node = nullptr;  // null: its own
    model::KvCache& cache() const { return node == nullptr ? sequence->cache : node->cache; }
  };
  // What the trainer will see where an id was drawn.
  struct Facts {
    float logprob = 0, entropy = 0;
  };
  struct Drawn {
    bool finite = false;
    Draw draw;
    Facts facts;
  };
  void feed(Sequence& sequence);
  bool add(const Fed& fed, std::int64_t count, bool is_reading);
  at::Tensor forward();
  // The next `rows` rows go through the sequence's adapter (rows_).
  void go_through(const Sequence& sequence, std::int64_t rows);
  ops::PassContext pass() const;
  void read_again(std::span<const Ready> ready) const;
  void sample(std::span<const Ready> ready, const at::Tensor& hidden,
              std::size_t& taken);  // so many have theirs
  Draw draw(Sampler& sampler, Sequence& sequence, std::span<const float> logits) const;
  void take(Sequence& sequence, const Draw& draw) const;
  // These take some of the sequences, all on the host or all on the device.
  at::Tensor logits_of(std::span<const Ready> ready, const at::Tensor& hidden);
  std::vector<Drawn> draw_all(std::span<const Ready> ready, const at::Tensor& hidden);
  std::vector<Drawn> draw_on_host(std::span<const Ready> ready, const at::Tensor& hidden);
  std::vector<Drawn> draw_on_device(std::span<const Ready> ready, const at::Tensor& hidden);
  static Facts facts_of(const at::Tensor& logits, std::int64_t id, double temperature);  // logits [1, V]

  const model::CausalLm& model_;
  const std::int64_t most_;
  std::vector<Sampler> samplers_;  // one a thread
  DeviceDraws draws_;
  std::int64_t computed_ = 0;
  // of the forward that is being made
  std::vector<Fed> fed_;
  std::vector<std::vector<std::int64_t>> ids_;
  std::int64_t prefill_ = 0;
  std::vector<ops::AdapterRows> rows_;  // of a forward, then of the logits
};

}  // namespace hone::rollout
