// Guesses of what sequences say next, from what they, the other samples of their prompt and its earlier samples have said, and how far
// guessing pays. A guess decides no bit of a completion: only in how many passes it is made.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "rollout/completion.h"

namespace hone::model {
class CausalLm;
}

namespace hone::rollout {

struct Sequence;
struct PromptGroup;

// Why nothing is guessed for this model here, for a user; empty where guesses may be made: a pass of several tokens has the
// bits of as many passes, and its keys can be taken back.
std::optional<std::string> why_no_drafts(const model::CausalLm& model);

// A repetition penalty and `constrain` look at the tokens before, one after another.
bool takes_guesses(const RequestOptions& options);
// Says whether anything is guessed where this model samples with these options.
bool guesses(const GenerateOptions& options, const model::CausalLm& model);

// Tokens before a guess that are looked up, the longest first.
constexpr std::array<std::size_t, 2> kDraftMatches = {4, 2};
constexpr std::int64_t kLongestDraft = 16;
constexpr std::int64_t kMostGuesses =
    64;  // tokens of a pass, of all its sequences: the memory plan counts their logits

// Bytes of a token in DraftTexts, about: its number, and its places behind four and two tokens.
constexpr std::int64_t kPlaceBytes = 84;

// Holds the texts of one prompt's samples, those of earlier batches first, and knows where each run of kDraftMatches tokens was seen last.
class DraftTexts {
 public:
  std::size_t add_text();  // an empty one; its number
  void add(std::size_t text, std::span<const std::int32_t> ids);
  std::span<const std::int32_t> text(std::size_t number) const { return texts_[number]; }
  // Adds texts of earlier batches; what is added later is what was seen last.
  void add_former(const Texts& texts);
  bool has_samples() const { return texts_.size() > former_; }  // of this batch

  // What followed the last tokens of text `number` where they were seen before, at most `most` tokens; `match`
  // becomes the place in kDraftMatches. A text that repeats itself is followed beyond its end. Empty: seen nowhere.
  std::vector<std::int32_t> find(std::size_t number, std::int64_t most, std::size_t& match) const;

 private:
  struct Place {
    std::uint32_t text = 0, at = 0;  // of the token that followed
  };
  static std::uint64_t key_of(std::span<const std::int32_t> ids);

  std::vector<std::vector<std::int32_t>> texts_;
  std::size_t former_ = 0;  // of them, the first ones
  std::unordered_map<std::uint64_t, Place> places_;
};

// A sequence has one.
struct SequenceDraft {
  std::vector<std::int32_t> ids;  // guessed in the forward that is being made
  std::size_t match = 0;
  // How often a guess of either match was right lately; negative: as the engine's so far.
  std::array<double, kDraftMatches.size()> right = {-1, -1};
  std::int64_t unasked = 0;  // guesses in a row that were not read, because they did not pay
  std::shared_ptr<DraftTexts> texts;
  std::size_t text = 0;
  std::int64_t begin = 0;  // where its text begins in Sequence::ids
  std::int64_t turns = 0;  // of the sequence, when its text was last compared
};

// Estimates what a pass costs by its rows: a straight line goes through the latest passes.
class PassCost {
 public:
  void see(std::int64_t rows, double seconds);
  bool is_known() const { return slope_ >= 0; }
  double seconds(std::int64_t rows) const { return start_ + slope_ * static_cast<double>(rows); }
  // Returns what one more row costs, as a share of what a token costs in a pass of `rows` sequences without drafts.
  double share_of_row(std::int64_t rows) const;

 private:
  double count_ = 0, rows_ = 0, seconds_ = 0, rows_rows_ = 0, rows_seconds_ = 0;
  double start_ = 0, slope_ = -1;
};

class Drafter {
 public:
  explicit Drafter(const EngineOptions& options);

  // Sets sequence.draft.ids in a pass that reads the last token of `rows` sequences.
  void guess(Sequence& sequence, std::int64_t rows);
  // So many of sequence.draft.ids were right. The pass has looked at no more than one after those.
  void see(Sequence& sequence, std::int64_t right);
  // A pass of `sequences` last tokens and nothing else but guesses, of which `right` were right.
  void see_pass(std::int64_t sequences, std::int64_t guessed, std::int64_t right, double seconds);

 private:
  static DraftTexts& texts_of(PromptGroup& group);
  static void follow(Sequence& sequence);  // its text is its tokens
  std::int64_t length_that_pays(SequenceDraft& draft, std::int64_t rows) const;

  const EngineOptions options_;
  DraftFacts own_facts_;
  DraftFacts& facts_;
  PassCost cost_;
  std::array<double, kDraftMatches.size()> right_ = {0.5, 0.5};
};

}  // namespace hone::rollout
