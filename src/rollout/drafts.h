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
#include "rollout/draft_rule.h"

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
constexpr std::array<std::size_t, 3> kDraftMatches = {4, 2, 1};
constexpr std::int64_t kLongestDraft = 16;
constexpr std::int64_t kMostGuesses =
    64;  // tokens of a pass, of all its sequences: the memory plan counts their logits

// Bytes of a token in DraftTexts, about: its number, and its places behind four, two tokens and one.
constexpr std::int64_t kPlaceBytes = 172;

// Holds what followed a text's last tokens where they were seen last.
struct Found {
  std::vector<std::int32_t> ids;
  // So many of the tokens before are the same; counted up to the last of kMatchLengths.
  std::int64_t matched = 0;
  Followers followers = Followers::kOne;
};

// Holds the texts of one prompt's samples, those of earlier batches first, and knows where each run of kDraftMatches tokens was seen last.
class DraftTexts {
 public:
  std::size_t add_text();  // an empty one; its number
  void add(std::size_t text, std::span<const std::int32_t> ids);
  std::span<const std::int32_t> text(std::size_t number) const { return texts_[number]; }
  // Adds texts of earlier batches; what is added later is what was seen last.
  void add_former(const Texts& texts);
  bool has_samples() const { return texts_.size() > former_; }  // of this batch

  // Returns what followed the last tokens of text `number` where they were seen last, at most `most` tokens. A text that repeats itself
  // is followed beyond its end. Empty: seen nowhere.
  Found find(std::size_t number, std::int64_t most) const;

 private:
  struct Place {
    std::uint32_t text = 0, at = 0;  // of the token that followed
    Followers followers = Followers::kOne;
  };
  static std::uint64_t key_of(std::span<const std::int32_t> ids);
  std::int64_t matched_at(std::span<const std::int32_t> own, const Place& place) const;

  std::vector<std::vector<std::int32_t>> texts_;
  std::size_t former_ = 0;  // of them, the first ones
  std::unordered_map<std::uint64_t, Place> places_;
};

// A sequence has one.
struct SequenceDraft {
  std::vector<std::int32_t> ids;  // guessed in the forward that is being made
  // It is what was found, of which the first tokens are read where they pay. Tokens that are drawn later tell how right it was,
  // read or not.
  Found found;
  std::int64_t found_at = 0;  // tokens before it
  Shares shares = {};
  std::shared_ptr<DraftTexts> texts;
  std::size_t text = 0;
  std::int64_t begin = 0;  // where its text begins in Sequence::ids
  std::int64_t turns = 0;  // of the sequence, when its text was last compared, and something was last found
};

class Drafter {
 public:
  explicit Drafter(const EngineOptions& options);

  // Sets draft.ids of these, of each of which a pass of `rows` sequences reads the last token.
  void guess(std::span<Sequence* const> sequences, std::int64_t rows);
  // So many of sequence.draft.ids were right. The pass has looked at no more than one after those.
  void see(const Sequence& sequence, std::int64_t right);
  // A pass of `sequences` last tokens and nothing else but guesses, of which `right` were right.
  void see_pass(std::int64_t sequences, std::int64_t guessed, std::int64_t right, double seconds);

 private:
  static DraftTexts& texts_of(PromptGroup& group);
  static void follow(Sequence& sequence);  // its text is its tokens
  void find(Sequence& sequence);
  void learn(Sequence& sequence);
  std::vector<double> all_right(const SequenceDraft& draft) const;

  const EngineOptions options_;
  DraftFacts own_facts_;
  DraftFacts& facts_;
  const std::shared_ptr<DraftLearning> learning_;
};

}  // namespace hone::rollout
