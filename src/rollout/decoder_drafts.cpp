// The decoder's passes with guesses (drafts.h).
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/process/instruction_level.h"
#include "model/config/mixer.h"
#include "ops/machine/device_memory.h"
#include "ops/machine/team.h"
#include "rollout/decoder.h"
#include "rollout/drafts.h"
#include "rollout/sequence.h"

namespace hone::rollout {

std::optional<std::string> why_no_drafts(const model::CausalLm& model) {
  const model::ModelConfig& config = model.config();
  if (!ops::is_host(model.device())) return "they are made on the CPU alone";
  if (base::instruction_level() < base::InstructionLevel::kAvx2)
    return "below AVX2 a pass of several tokens may have other bits";
  for (const model::Mixer* const mixer : model::mixers_of(config))
    if (!mixer->goes_back()) return "the state of its convolutions or delta rules cannot go back";
  return std::nullopt;
}

void Decoder::begin_guesses(std::span<Sequence* const> live) {
  guessed_ = right_ = 0;
  if (!drafter_) return;
  start_ = base::Clock::now();
  std::vector<Sequence*> at_their_last;
  for (Sequence* const one : live) {
    one->draft.ids.clear();
    // The first tokens of a cache say how large it becomes, so that they are never guesses.
    const model::KvCache& cache = one->cache;
    if (!cache.layers.empty() && cache.length + 1 == one->length() && cache.length >= one->turn)
      at_their_last.push_back(one);
  }
  if (!at_their_last.empty()) drafter_->guess(at_their_last, std::ssize(at_their_last));
}

void Decoder::guess(Sequence& sequence) {
  std::vector<std::int32_t>& ids = sequence.draft.ids;
  ids.resize(static_cast<std::size_t>(std::min(std::ssize(ids), kMostGuesses - guessed_)));
  ids_.back().insert(ids_.back().end(), ids.begin(), ids.end());
  guessed_ += std::ssize(ids);
}

void Decoder::end_guesses() {
  if (prefill_ == 0) drafter_->see_pass(std::ssize(fed_), guessed_, right_, base::seconds_since(start_));
}

// Until a guess is not what is drawn, or there is none: that token is what the sequence would have got without guesses too.
void Decoder::draw_chain(Sampler& sampler, std::span<const Ready> chain, const at::Tensor& logits,
                         std::vector<Drawn>& out) const {
  Sequence& sequence = *chain.front().sequence;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    out.push_back(drawn_from(sampler, sequence, logits, chain[i].row, i));
    if (!out.back().finite || i + 1 == chain.size() || out.back().draw.id != sequence.draft.ids[i]) return;
  }
}

// Its keys become those of its tokens but the last, as after a pass of one token, whatever happens here.
std::int64_t Decoder::take_chain(std::span<const Ready> chain, std::span<const Drawn> drawn) {
  Sequence& sequence = *chain.front().sequence;
  const auto drop_the_rest = [&] {
    if (chain.size() > 1) sequence.cache.truncate(std::min(sequence.cache.length, sequence.length() - 1));
  };
  std::int64_t taken = 0;
  try {
    for (const Drawn& its : drawn) {
      if (!take_drawn(sequence, its)) break;
      ++taken;
      if (sequence.has_ended) break;
    }
  } catch (...) {
    drop_the_rest();
    throw;
  }
  drop_the_rest();
  return taken;
}

void Decoder::sample_drafts(std::span<const Ready> ready, const at::Tensor& hidden, std::size_t& taken) {
  const at::Tensor logits = logits_of(ready, hidden).contiguous();
  std::vector<std::span<const Ready>> chains;
  for (std::size_t begin = 0, end = 0; begin < ready.size(); begin = end) {
    for (end = begin; end < ready.size() && ready[end].sequence == ready[begin].sequence;) ++end;
    chains.push_back(ready.subspan(begin, end - begin));
  }
  std::vector<std::vector<Drawn>> drawn(chains.size());
  samplers_.resize(std::max(samplers_.size(), static_cast<std::size_t>(at::get_num_threads())));
  ops::in_team(std::ssize(chains), at::get_num_threads(), [&](std::int64_t i, std::int64_t thread) {
    const auto at = static_cast<std::size_t>(i);
    draw_chain(samplers_[static_cast<std::size_t>(thread)], chains[at], logits, drawn[at]);
  });
  const Sequence* bad = nullptr;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    Sequence& one = *chains[i].front().sequence;
    taken += chains[i].size();
    const std::int64_t tokens = take_chain(chains[i], drawn[i]);
    if (!drawn[i].back().finite && one.completion.finish_reason == FinishReason::kCancelled && bad == nullptr)
      bad = &one;
    if (one.draft.ids.empty()) continue;
    const std::int64_t right = std::max<std::int64_t>(0, tokens - 1);
    right_ += right;
    drafter_->see(one, right);
  }
  if (bad != nullptr) not_finite(*bad);
}

}  // namespace hone::rollout
