// A sampler takes these options, and its result is a completion.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ops/linear.h"
#include "rollout/sampler.h"

namespace hone::rollout {

// Holds the options of one sequence. Its completion depends on its tokens and on these alone, not on the
// sequences beside it (engine.h has the exact rule).
struct RequestOptions {
  std::int64_t max_new_tokens = 64;
  SamplerOptions sampler;
  std::uint64_t seed = 42;
  std::uint64_t step = 0;              // of training: keys the randomness
  std::vector<std::int64_t> stop_ids;  // end of sequence; the stop token is part of the completion
  std::int64_t min_new_tokens = 0;     // stop tokens cannot be drawn before so many
  // Keys and values of what follows the prompt begin a tile of their own (ops/kv_tiles.h), so that the samples of a
  // prompt read its keys and values in place, and cost no memory for them; false: a sample has a copy. The bits
  // differ where a prompt does not end at a tile's border, whether or not there is another sample; a trainer that
  // shares prompts has those of true.
  bool share_prompt = false;
  // Whole tiles of the prompt are looked for among those that earlier requests with this option have read, and kept
  // for later ones while there is room. Changes no bit. Only where every layer is attention: what a convolution
  // or a delta rule holds is not kept at each tile.
  bool share_prefixes = false;
  bool entropies = false;  // fill Completion::entropies
  bool logprobs = true;    // false: Completion::logprobs stays empty, which saves a pass over the logits
  // Asked after each token with the completion so far: does its text now hold a stop string? Empty: none.
  // (rollout/ itself has no tokenizer.) Called by one thread.
  std::function<bool(std::span<const std::int32_t>)> stops;
  // Asked before each token, after penalties, with the completion so far and its scores [V]: sets those of tokens
  // that may not follow to -infinity, but not all. Empty: none. Called by several threads.
  std::function<void(std::span<const std::int32_t>, std::span<float>)> constrain;
};

// Tokens that are guessed, and read in one pass with the last one: what the pass says of them is what one pass a token would
// have said, so a guess is kept where it is what is drawn there, and a completion's bits are those without guesses.
enum class Drafts {
  kOff,
  kAuto,  // guesses of what pays: it is measured how often they are right, and what a pass of more rows costs
  kAlways,  // every guess; for tests
};

// Guesses what may follow these tokens, at most so many.
using GuessFunction = std::function<std::vector<std::int32_t>(std::span<const std::int32_t>, std::int64_t)>;

using Texts = std::vector<std::vector<std::int32_t>>;  // tokens of each

struct DraftLearning;                             // drafts.h
std::shared_ptr<DraftLearning> draft_learning();  // that has seen nothing

// How far drafts went.
struct DraftFacts {
  std::int64_t drafted = 0;   // guessed tokens that were read
  std::int64_t accepted = 0;  // of them, those that were what was drawn
  std::int64_t passes = 0;    // guesses of one or more tokens of a sequence
  // Sampling took so much less time, by the measured cost of a pass; negative where drafts cost time.
  double seconds_saved = 0;
};

// These hold for all sequences together.
struct EngineOptions {
  std::int64_t batch_size = 16;        // maximum number of sequences that decode together
  std::int64_t prefill_tokens = 2048;  // prompt tokens of one forward; a longer prompt is read in pieces
  // Bytes of keys and values: as many sequences decode as fit with all their max_new_tokens.
  // 0: half of the memory that is free when sampling begins, and at least one sequence.
  std::int64_t kv_memory = 0;
  // Nothing is guessed where a pass of several tokens may have other bits (a device, products of libtorch's), where a
  // state cannot go back (convolutions, delta rules), and in requests with a repetition penalty or `constrain`.
  Drafts drafts = Drafts::kOff;
  DraftFacts* draft_facts = nullptr;  // added to; null: nobody asks. Must outlive the engine
  // It has what engines before have measured, and goes on in this one. Null: the engine begins without.
  std::shared_ptr<DraftLearning> draft_learning = {};
  const GuessFunction* guess =
      nullptr;  // in place of the engine's own guesses; null: those. Must outlive the engine
};

// Holds the options of generate().
struct GenerateOptions : RequestOptions, EngineOptions {
  std::int64_t samples = 1;  // completions of each prompt: transformers' num_return_sequences
  // Keys the randomness of each prompt; empty: its place among the prompts.
  std::vector<std::size_t> prompt_keys;
  // Each prompt has its Request::adapter here. Where this is empty, the model is used as it is.
  std::vector<std::shared_ptr<const ops::AdapterSides>> adapters = {};
  bool keeps_texts =
      true;  // with drafts: whether a source keeps what was said for the same prompt's next time
  // Each prompt has its Request::former here; empty: none has.
  std::vector<std::shared_ptr<const Texts>> former = {};

  std::size_t key_of(std::size_t prompt) const {
    return prompt_keys.empty() ? prompt : prompt_keys.at(prompt);
  }
  std::shared_ptr<const Texts> former_of(std::size_t prompt) const {
    return former.empty() ? nullptr : former.at(prompt);
  }
};

enum class FinishReason {
  kLength,      // max_new_tokens
  kStopToken,   // the last id is one of stop_ids
  kStopString,  // `stops` returned true
  kCancelled,   // by the caller
};

struct Completion {
  std::vector<std::int32_t> ids;  // the stop token included
  // Holds for each id the log-probability in the model's own distribution, over all tokens, at the sampler's
  // temperature (1 when greedy), as a trainer computes it again (ops/head/linear_logprob.h).
  std::vector<float> logprobs;
  // The log-probability in the distribution that was drawn from, after penalty and filters; 0 when greedy.
  std::vector<float> sampled_logprobs;
  // Entropy of the full distribution at the sampler's temperature where each id was drawn;
  // ops/head/linear_logprob.h.
  std::vector<float> entropies;
  FinishReason finish_reason = FinishReason::kLength;
};

}  // namespace hone::rollout
