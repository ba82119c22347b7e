// One forward of an engine's sequences, and what is drawn from it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "model/causal_lm.h"
#include "ops/linear.h"
#include "ops/machine/step_graphs.h"
#include "rollout/device_draws.h"
#include "rollout/drafts.h"
#include "rollout/sampler.h"
#include "rollout/sequence.h"

namespace hone::rollout {

class Decoder {
 public:
  // The model must outlive it.
  Decoder(const model::CausalLm& model, const EngineOptions& options)
      : model_(model),
        most_(options.prefill_tokens > 0 ? options.prefill_tokens : 1),
        draws_(model.device(), model.config().vocab_size) {
    if (options.drafts != Drafts::kOff && !why_no_drafts(model)) drafter_.emplace(options);
    if (ops::step_graphs_wanted()) graphs_.emplace(model.device());
  }

  // Sequences that have read their tokens get one each, with drafts also those that were guessed right; the tokens of
  // the others are read in pieces of prefill_tokens, as many as fit into that number together, in order. What several have in common is read once. `has_ended` and
  // `has_new_token` are set. UserError for logits that are not finite: such sequences have ended as cancelled. After
  // another exception caches are as they were, or shorter. A sequence's tokens do not depend on the others here.
  //
  // Where the device draws all of `all`, and no function of the host looks at their tokens, the next step is started before the host
  // waits for the tokens of this one: it reads them on the device. What has ended by then was read for nothing, and is taken back.
  void advance(std::span<Sequence* const> all);

  // Of a sequence that leaves the batch, and of all of them, before their keys go: the step that has been started is not for them.
  void drop(const Sequence& sequence);
  void drop_all();

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
  void begin_guesses(std::span<Sequence* const> live);
  void guess(Sequence& sequence);  // after its last token was fed
  void end_guesses();              // of a pass whose rows were all drawn from
  std::int64_t rows_wanted(const Fed& fed) const {
    return fed.node != nullptr || guessed_ == 0 ? 1 : 1 + std::ssize(fed.sequence->draft.ids);
  }
  bool add(const Fed& fed, std::int64_t count, bool is_reading);
  at::Tensor forward();
  // The next `rows` rows go through the sequence's adapter (rows_).
  void go_through(const Sequence& sequence, std::int64_t rows);
  ops::PassContext pass() const;
  void read_again(std::span<const Ready> ready);
  void sample(std::span<const Ready> ready, const at::Tensor& hidden,
              std::size_t& taken);  // so many have theirs
  // The same where some have guesses: neighbors in `ready`, a row each, the first of the token before them.
  void sample_drafts(std::span<const Ready> ready, const at::Tensor& hidden, std::size_t& taken);
  void draw_chain(Sampler& sampler, std::span<const Ready> chain, const at::Tensor& logits,
                  std::vector<Drawn>& out) const;
  std::int64_t take_chain(std::span<const Ready> chain, std::span<const Drawn> drawn);  // tokens
  // `ahead` tokens after its last one, whose logits these are.
  Draw draw(Sampler& sampler, Sequence& sequence, std::span<const float> logits,
            std::uint64_t ahead = 0) const;
  Drawn drawn_from(Sampler& sampler, Sequence& sequence, const at::Tensor& logits, std::int64_t row,
                   std::uint64_t ahead = 0) const;
  bool take_drawn(Sequence& sequence, const Drawn& its) const;  // false: its logits were not finite
  [[noreturn]] static void not_finite(const Sequence& sequence);
  void take(Sequence& sequence, const Draw& draw) const;
  void take(std::span<const Ready> ready, std::span<const Drawn> drawn, std::size_t& taken) const;
  bool runs_ahead(std::span<const Ready> ready) const;
  const char* why_not_ahead(bool all_are_drawn) const;
  void make_cache_room(Sequence& sequence) const;
  bool finish_ahead(std::span<Sequence* const> live);
  void try_ahead(std::span<const Ready> last);
  void step_ahead(std::span<const Ready> last);
  // These work on all rows of the sampler, in its order, so that each step of the batch is the same work.
  std::string why_no_graph() const;  // of this step; empty: it has one
  void step_by_graph(std::span<const Ready> next);
  void drop_ended();
  void tell_failed();
  at::Tensor logits_at(const std::vector<std::int64_t>& places, std::span<const Ready> ready,
                       const at::Tensor& hidden);
  std::vector<Drawn> drawn_on_device();
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
  std::optional<Drafter> drafter_;        // nothing: no drafts
  std::int64_t guessed_ = 0, right_ = 0;  // tokens
  std::vector<std::int64_t> wanted_;      // rows of hidden of each of fed_; empty: one each
  base::Clock::time_point start_ = {};
  bool may_run_ahead_ = false;
  // The step that was started ahead of the host draws tokens of these; null: nobody wants one any more.
  std::vector<Ready> ahead_;
  std::exception_ptr failed_;  // what starting it threw: told after the tokens that were drawn before
  std::vector<ops::AdapterRows> rows_;     // of a forward, then of the logits
  std::optional<ops::StepGraphs> graphs_;  // nothing: not wanted
};

}  // namespace hone::rollout
