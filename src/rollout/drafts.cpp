#include "rollout/drafts.h"

#include <algorithm>
#include <utility>

#include "base/process/instruction_level.h"
#include "rollout/sequence.h"

namespace hone::rollout {
namespace {

constexpr std::size_t kMostBefore = kDraftMatches.front();
constexpr double kKeepOwn = 0.9;    // of what a sequence's guesses were like, with each that is compared
constexpr double kKeepAll = 0.996;  // the same of all together
constexpr double kWeightOfAll = 4;  // guesses of a sequence's own that these count as

}  // namespace

// Kernels take twice the rows of their tiles while weights are read once. The second figures are of SmolLM2-135M on a Xeon.
std::shared_ptr<DraftLearning> draft_learning() {
  const base::InstructionLevel level = base::instruction_level();
  const PassCost cost = level >= base::InstructionLevel::kAmx      ? PassCost(32, 32)
                        : level >= base::InstructionLevel::kAvx512 ? PassCost(28, 16)
                                                                   : PassCost(12, 5);
  return std::make_shared<DraftLearning>(DraftLearning{.cost = cost});
}

bool takes_guesses(const RequestOptions& options) {
  return options.sampler.repetition_penalty == 1 && !options.constrain;
}

bool guesses(const GenerateOptions& options, const model::CausalLm& model) {
  return options.drafts != Drafts::kOff && takes_guesses(options) && !why_no_drafts(model);
}

std::uint64_t DraftTexts::key_of(std::span<const std::int32_t> ids) {
  std::uint64_t out = ids.size();
  for (const std::int32_t id : ids)
    out = (out ^ static_cast<std::uint32_t>(id)) * 0x9E3779B97F4A7C15ULL + (out >> 29);
  return out;
}

std::size_t DraftTexts::add_text() {
  texts_.emplace_back();
  return texts_.size() - 1;
}

void DraftTexts::add_former(const Texts& texts) {
  for (const std::vector<std::int32_t>& one : texts) add(add_text(), one);
  former_ = texts_.size();
}

// A run is known once it has been followed, so that a text does not find its own end.
void DraftTexts::add(std::size_t number, std::span<const std::int32_t> ids) {
  std::vector<std::int32_t>& text = texts_[number];
  for (const std::int32_t id : ids) {
    text.push_back(id);
    const auto before = std::span<const std::int32_t>(text).first(text.size() - 1);
    for (const std::size_t length : kDraftMatches) {
      if (before.size() < length) continue;
      const auto [place, is_new] = places_.try_emplace(key_of(before.last(length)));
      Place& last = place->second;
      if (!is_new) last.followers = texts_[last.text][last.at] == id ? Followers::kSame : Followers::kOthers;
      last.text = static_cast<std::uint32_t>(number);
      last.at = static_cast<std::uint32_t>(before.size());
    }
  }
}

std::int64_t DraftTexts::matched_at(std::span<const std::int32_t> own, const Place& place) const {
  const std::vector<std::int32_t>& other = texts_[place.text];
  const std::size_t most =
      std::min({own.size(), std::size_t{place.at}, static_cast<std::size_t>(kMatchLengths.back())});
  std::size_t out = 0;
  while (out < most && own[own.size() - 1 - out] == other[place.at - 1 - out]) ++out;
  return static_cast<std::int64_t>(out);
}

Found DraftTexts::find(std::size_t number, std::int64_t most) const {
  const std::span<const std::int32_t> own(texts_[number]);
  for (const std::size_t length : kDraftMatches) {
    if (own.size() < length) continue;
    const auto place = places_.find(key_of(own.last(length)));
    if (place == places_.end()) continue;
    const auto [text, at, followers] = place->second;
    Found out = {.ids = {}, .matched = matched_at(own, place->second), .followers = followers};
    const std::vector<std::int32_t>& other = texts_[text];
    for (std::size_t i = at; std::ssize(out.ids) < most; ++i) {
      if (i < other.size()) {
        out.ids.push_back(other[i]);
      } else if (text == number) {
        out.ids.push_back(out.ids[i - other.size()]);
      } else {
        break;
      }
    }
    return out;
  }
  return {};
}

Drafter::Drafter(const EngineOptions& options)
    : options_(options),
      facts_(options.draft_facts != nullptr ? *options.draft_facts : own_facts_),
      learning_(options.draft_learning ? options.draft_learning : draft_learning()) {}

DraftTexts& Drafter::texts_of(PromptGroup& group) {
  if (!group.texts) group.texts = std::make_shared<DraftTexts>();
  if (const auto former = std::exchange(group.former, nullptr)) group.texts->add_former(*former);
  return *group.texts;
}

void Drafter::follow(Sequence& sequence) {
  SequenceDraft& draft = sequence.draft;
  PromptGroup& group = *sequence.group;
  const std::span<const std::int32_t> ids(sequence.ids);
  DraftTexts& texts = texts_of(group);
  std::int64_t known = 0;  // tokens of the sequence that a text of the group has
  bool begins = false;
  if (draft.texts != group.texts) {
    begins = true;
    known = texts.has_samples() ? std::min(group.prompt, sequence.length()) : 0;
  } else {
    known = draft.begin + std::ssize(texts.text(draft.text));
    if (draft.turns != sequence.turns) {
      const auto text = texts.text(draft.text);
      const auto from = ids.begin() + std::min(draft.begin, sequence.length());
      const auto same = std::mismatch(text.begin(), text.end(), from, ids.end()).first - text.begin();
      begins = same < std::ssize(text);
      if (begins) known = std::min(draft.begin + same, sequence.length());
    }
  }
  draft.turns = sequence.turns;
  if (begins) {
    draft.texts = group.texts;
    draft.text = texts.add_text();
    draft.begin = known = std::max<std::int64_t>(0, known - static_cast<std::int64_t>(kMostBefore));
  }
  texts.add(draft.text, ids.subspan(static_cast<std::size_t>(known)));
}

// From the tokens that came where something was found, up to the first other one.
void Drafter::learn(Sequence& sequence) {
  SequenceDraft& draft = sequence.draft;
  if (draft.turns == sequence.turns) {
    const auto drawn = sequence.length() - draft.found_at;
    for (std::int64_t i = 0; i < std::min(drawn, std::ssize(draft.found.ids)); ++i) {
      const std::size_t kind = match_class(draft.found.matched + i, draft.found.followers);
      const bool is_right = draft.found.ids[static_cast<std::size_t>(i)] ==
                            sequence.ids[static_cast<std::size_t>(draft.found_at + i)];
      draft.shares[kind].see(is_right, kKeepOwn);
      learning_->shares[kind].see(is_right, kKeepAll);
      if (!is_right) break;
    }
  }
  draft.found = {};
}

void Drafter::find(Sequence& sequence) {
  SequenceDraft& draft = sequence.draft;
  const RequestOptions& options = *sequence.options;
  learn(sequence);  // what was found for an earlier turn is none of this one, which may take no guesses
  if (!takes_guesses(options)) return;
  // The last token that a request may have is drawn, not read.
  const std::int64_t most =
      std::min(options.max_new_tokens - std::ssize(sequence.completion.ids) - 1, kLongestDraft);
  if (most <= 0) return;
  draft.found_at = sequence.length();
  if (options_.guess != nullptr) {
    draft.turns = sequence.turns;
    draft.found = {.ids = (*options_.guess)(sequence.ids, most), .matched = kMatchLengths.back()};
  } else {
    follow(sequence);
    draft.found = draft.texts->find(draft.text, most);
  }
}

std::vector<double> Drafter::all_right(const SequenceDraft& draft) const {
  std::vector<double> out;
  double right = 1;
  for (std::int64_t i = 0; i < std::ssize(draft.found.ids); ++i) {
    const std::size_t kind = match_class(draft.found.matched + i, draft.found.followers);
    const Share &all = learning_->shares[kind], &own = draft.shares[kind];
    right *= (own.right + kWeightOfAll * all.right / all.tried) / (own.tried + kWeightOfAll);
    out.push_back(right);
  }
  return out;
}

void Drafter::guess(std::span<Sequence* const> sequences, std::int64_t rows) {
  std::vector<std::int64_t> lengths;
  std::vector<std::vector<double>> chances;
  for (Sequence* const one : sequences) {
    find(*one);
    if (options_.drafts == Drafts::kAlways) {
      lengths.push_back(kLongestDraft);
    } else {
      chances.push_back(all_right(one->draft));
    }
  }
  if (options_.drafts != Drafts::kAlways)
    lengths = lengths_that_pay(chances, rows, kMostGuesses, learning_->cost);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    SequenceDraft& draft = sequences[i]->draft;
    const std::vector<std::int32_t>& found = draft.found.ids;
    draft.ids.assign(found.begin(), found.begin() + std::min(lengths[i], std::ssize(found)));
  }
}

void Drafter::see(const Sequence& sequence, std::int64_t right) {
  facts_.passes += 1;
  facts_.drafted += std::ssize(sequence.draft.ids);
  facts_.accepted += right;
}

void Drafter::see_pass(std::int64_t sequences, std::int64_t guessed, std::int64_t right, double seconds) {
  if (sequences == 0) return;
  PassCost& cost = learning_->cost;
  cost.see(sequences + guessed, seconds);
  if (guessed == 0) return;
  const double plain = cost.seconds(sequences);
  facts_.seconds_saved +=
      plain * static_cast<double>(sequences + right) / static_cast<double>(sequences) - seconds;
}

}  // namespace hone::rollout
