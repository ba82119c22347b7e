// What a model has said after a prompt in earlier batches: a source of guesses when the prompt comes again (drafts.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "rollout/completion.h"

namespace hone::rollout {

constexpr std::int64_t kMostFormerBytes = 32 << 20;

// Returns the bytes that a text of so many tokens is counted with.
constexpr std::int64_t former_bytes(std::int64_t tokens) {
  return tokens * std::int64_t{4} + 64;
}

// Holds the newest texts of each prompt, in memory alone.
//
// A prompt that is held gets its newer texts as far as they fit. Where the memory is full no other prompt is taken in: the
// prompts of an epoch come again in the next, in another order, so that each would be let go shortly before it comes.
class FormerTexts {
 public:
  explicit FormerTexts(std::int64_t most_bytes = kMostFormerBytes) : most_(most_bytes) {}

  // Texts of the last tokens of `prompt` and of a completion each, in place of what `key` had.
  void keep(std::int64_t key, std::span<const std::int32_t> prompt,
            const std::vector<std::span<const std::int32_t>>& completions);
  std::shared_ptr<const Texts> find(std::int64_t key) const;  // null: none
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t most_, bytes_ = 0;
  std::map<std::int64_t, std::shared_ptr<const Texts>> texts_;
};

}  // namespace hone::rollout
