#include "rollout/drafts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "rollout/sequence.h"

namespace hone::rollout {
namespace {

constexpr std::size_t kMostBefore = kDraftMatches.front();
constexpr double kForget = 1.0 / 8;     // weight of a new guess
constexpr double kKeepCost = 0.95;      // of what was measured, with each pass
constexpr double kUnknownShare = 0.25;  // a row's cost before it is known
constexpr std::int64_t kAskAgain = 32;  // so many guesses that do not pay, then one token is tried

}  // namespace

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
    const std::span<const std::int32_t> before(text);
    for (const std::size_t length : kDraftMatches) {
      if (before.size() < length) continue;
      places_[key_of(before.last(length))] = {.text = static_cast<std::uint32_t>(number),
                                              .at = static_cast<std::uint32_t>(text.size())};
    }
    text.push_back(id);
  }
}

std::vector<std::int32_t> DraftTexts::find(std::size_t number, std::int64_t most, std::size_t& match) const {
  const std::span<const std::int32_t> own(texts_[number]);
  std::vector<std::int32_t> out;
  for (match = 0; match < kDraftMatches.size(); ++match) {
    if (own.size() < kDraftMatches[match]) continue;
    const auto place = places_.find(key_of(own.last(kDraftMatches[match])));
    if (place == places_.end()) continue;
    const auto [text, at] = place->second;
    const std::vector<std::int32_t>& other = texts_[text];
    for (std::size_t i = at; std::ssize(out) < most; ++i) {
      if (i < other.size()) {
        out.push_back(other[i]);
      } else if (text == number) {
        out.push_back(out[i - other.size()]);
      } else {
        break;
      }
    }
    return out;
  }
  match = 0;
  return out;
}

void PassCost::see(std::int64_t rows, double seconds) {
  const auto x = static_cast<double>(rows);
  for (double* const sum : {&count_, &rows_, &seconds_, &rows_rows_, &rows_seconds_}) *sum *= kKeepCost;
  count_ += 1;
  rows_ += x;
  seconds_ += seconds;
  rows_rows_ += x * x;
  rows_seconds_ += x * seconds;
  const double spread = count_ * rows_rows_ - rows_ * rows_;
  if (spread < 1e-3 * count_ * rows_rows_) return;  // nearly all of as many rows: the line before stays
  slope_ = std::max(0.0, (count_ * rows_seconds_ - rows_ * seconds_) / spread);
  start_ = std::max(0.0, (seconds_ - slope_ * rows_) / count_);
}

double PassCost::share_of_row(std::int64_t rows) const {
  const double pass = seconds(rows);
  if (!is_known() || pass <= 0) return kUnknownShare;
  return std::clamp(slope_ * static_cast<double>(rows) / pass, 0.02, 1.0);
}

Drafter::Drafter(const EngineOptions& options)
    : options_(options), facts_(options.draft_facts != nullptr ? *options.draft_facts : own_facts_) {}

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

// A guess of i tokens in a row is right with right^i. A row pays where that is more than its share of a token's cost.
std::int64_t Drafter::length_that_pays(SequenceDraft& draft, std::int64_t rows) const {
  if (options_.drafts == Drafts::kAlways) return kLongestDraft;
  double& right = draft.right[draft.match];
  if (right < 0) right = right_[draft.match];
  const double share = cost_.share_of_row(rows);
  double all_right = right;
  std::int64_t out = 0;
  while (out < kLongestDraft && all_right > share) {
    all_right *= right;
    ++out;
  }
  draft.unasked = out > 0 ? 0 : draft.unasked + 1;
  if (draft.unasked < kAskAgain) return out;
  draft.unasked = 0;
  return 1;
}

void Drafter::guess(Sequence& sequence, std::int64_t rows) {
  SequenceDraft& draft = sequence.draft;
  draft.ids.clear();
  const RequestOptions& options = *sequence.options;
  if (!takes_guesses(options)) return;
  // The last token that a request may have is drawn, not read.
  std::int64_t most =
      std::min(options.max_new_tokens - std::ssize(sequence.completion.ids) - 1, kLongestDraft);
  if (most <= 0) return;
  if (options_.guess != nullptr) {
    draft.ids = (*options_.guess)(sequence.ids, most);
  } else {
    follow(sequence);
    draft.ids = draft.texts->find(draft.text, most, draft.match);
  }
  if (draft.ids.empty()) return;
  most = length_that_pays(draft, rows);
  if (std::ssize(draft.ids) > most) draft.ids.resize(static_cast<std::size_t>(most));
}

void Drafter::see(Sequence& sequence, std::int64_t right) {
  SequenceDraft& draft = sequence.draft;
  const std::int64_t looked_at = std::min(right + 1, std::ssize(draft.ids));
  double& its = draft.right[draft.match];
  if (its < 0) its = right_[draft.match];
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const double one = i < right ? 1 : 0;
    its += kForget * (one - its);
    right_[draft.match] += kForget / 8 * (one - right_[draft.match]);
  }
  facts_.passes += 1;
  facts_.drafted += std::ssize(draft.ids);
  facts_.accepted += right;
}

void Drafter::see_pass(std::int64_t sequences, std::int64_t guessed, std::int64_t right, double seconds) {
  cost_.see(sequences + guessed, seconds);
  if (guessed == 0 || !cost_.is_known() || sequences == 0) return;
  const double plain = cost_.seconds(sequences);
  facts_.seconds_saved +=
      plain * static_cast<double>(sequences + right) / static_cast<double>(sequences) - seconds;
}

}  // namespace hone::rollout
