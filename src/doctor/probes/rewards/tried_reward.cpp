#include "doctor/probes/rewards/tried_reward.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "doctor/checks/check_format.h"
#include "doctor/probes/drawn_rows.h"
#include "doctor/probes/rewards/reward_mixture.h"
#include "rewards/open_reward.h"

namespace hone::doctor {

namespace {

constexpr std::size_t kWideRows =
    2048;  // asked when the drawn ones tell nothing, or some of them have no score
constexpr std::size_t kQuickWideRows = 512;  // at least, of calls that are over sooner than
constexpr double kQuickCall = 0.5;           // seconds
constexpr double kWideSeconds = 2;           // about; two calls
constexpr std::size_t kVaried = 5;           // kinds of answers, before all scores are called the same
constexpr std::size_t kFewMixed = 2;         // rows, of slow calls and of those that may cost money
constexpr const char* kJunk = "lorem ipsum qx zzyx blah blah, und so weiter";
// What a template has opened in the prompt, no completion begins with.
constexpr const char* kTagsAfterThink = "\n</think>\n<answer>\n</answer>\n\\boxed{}\n#### ";
constexpr const char* kTags = "<think>\n</think>\n<answer>\n</answer>\n\\boxed{}\n#### ";

Texts same(std::size_t rows, const std::string& text) {
  return Texts(rows, text);
}

}  // namespace

TriedReward::TriedReward(rewards::Reward& reward, AskedReward asked, const RewardRows& rows)
    : reward_(reward),
      known_(std::move(asked)),
      rows_(&rows),
      user_code_(rewards::is_user_code(known_.word)),
      model_(rewards::is_model(known_.word)) {}

void TriedReward::run(const std::string& any_gold) {
  column_ = gold_of(any_gold);
  ask_all();
  if (!can_ask_widely() || late()) return;
  const bool tells =
      together_ || (!values_.empty() && (!user_code_ || (!constant() && rows_without_score() == 0)));
  if (tells) return;
  const std::vector<std::size_t> telling = telling_rows();
  if (telling.empty() || !user_code_) return;
  // Rows of another task have no score of this reward, or the same one for everything.
  own_rows_ =
      std::make_unique<RewardRows>(*rows_, draw_rows_of(rows_->prompts_of_run(), telling, rows_->size()));
  rows_ = &*own_rows_;
  forget();
  ask_all();
}

const Answered* TriedReward::asked(const std::string& kind) const {
  const auto found =
      std::find_if(calls_.begin(), calls_.end(), [&](const Answered& one) { return one.kind == kind; });
  return found == calls_.end() ? nullptr : &*found;
}

bool TriedReward::constant() const {
  return calls_.size() >= kVaried && lowest_ == highest_;
}

bool TriedReward::same_in_each_row() const {
  return calls_.size() >= kVaried && lowest_ < highest_ && is_of_row(calls_);
}

bool TriedReward::reads_gold() const {
  if (column_.empty()) return false;
  const bool asks = std::find(known_.needed.begin(), known_.needed.end(), column_) != known_.needed.end();
  return asks || gold_.on_column();
}

std::string TriedReward::gold_of(const std::string& any_gold) const {
  if (std::find(known_.needed.begin(), known_.needed.end(), any_gold) != known_.needed.end()) return any_gold;
  // Of ours the column that it names is the answer; of the user's any other may be test cases, or whatever.
  if (!user_code_ && !known_.needed.empty() && rows().has(known_.needed.front()))
    return known_.needed.front();
  return any_gold;
}

void TriedReward::ask_all() {
  if (!column_.empty()) {
    for (const auto& [kind, texts] : rows().gold_answers(column_)) {
      if (!calls_.empty() && late()) break;  // a slow one has been asked enough
      if (!ask_more(kind, texts)) return;
      if (calls_.size() == 1 || calls_.back().mean > calls_[best_].mean || std::isnan(calls_[best_].mean))
        best_ = calls_.size() - 1;
    }
    golds_ = calls_.size();
  }
  for (const auto& [kind, texts] : other_answers(rows())) {
    if (!calls_.empty() && late()) return;
    if (!ask_more(kind, texts)) return;
  }
  if (values_.empty()) return;
  repeat();
  if (user_code_ && changed_.empty() && (constant() || same_in_each_row())) ask_in_one_call();
  if (together_) return;
  if (user_code_ && changed_.empty() && !late()) depend();
  if (reads_gold() && !gold_.is_turned()) ask_adversaries();
  if (reads_gold() && !gold_.is_turned() && golds_ > 0 && can_ask_widely()) {
    attacks_ = attack_reward(reward_, rows(), asked_[best_], column_, [&] { return late(); });
    for (const auto* const some : {&attacks_.blind, &attacks_.corrupted}) {
      for (const Answered& one : *some) seconds_ += one.seconds;
    }
  }
}

void TriedReward::add_values(const Answered& one) {
  for (const double value : one.values) {
    if (!std::isfinite(value)) continue;
    lowest_ = std::min(lowest_, value);
    highest_ = std::max(highest_, value);
    if (values_.size() < 3) values_.insert(value);
  }
}

// False: that is enough, something is wrong.
bool TriedReward::ask_more(const std::string& kind, const Texts& texts) {
  Answered one = ask(reward_, rows(), kind, texts);
  if (error_.empty() && !one.error.empty()) error_ = kind + ": " + one.error;
  of_every_call_ = of_every_call_ || one.every_call;
  seconds_ += one.seconds;
  add_values(one);
  failures_.insert(failures_.end(), one.failures.begin(), one.failures.end());
  calls_.push_back(std::move(one));
  asked_.push_back(texts);
  return !of_every_call_;
}

// Of a function that gives every answer of a call the same: whether it does so beside better and worse ones.
void TriedReward::ask_in_one_call() {
  const double all_kinds = std::accumulate(calls_.begin(), calls_.end(), 0.0,
                                           [](double sum, const Answered& one) { return sum + one.seconds; });
  const bool few = word_is_url() || (known_.depth != Depth::kDeep && seconds_ + all_kinds > known_.patience);
  RewardMixture mixed =
      ask_together(reward_, rows(), few ? kFewMixed : rows().size(), forms(), golds_ > 0 ? column_ : "");
  seconds_ += mixed.seconds;
  if (mixed.calls.empty()) return;
  together_ = true;
  dependence_ = mixed.dependence;
  gold_ = mixed.dependence.on_order ? GoldDependence{} : mixed.gold;
  calls_ = std::move(mixed.calls);
  values_.clear();
  lowest_ = std::numeric_limits<double>::infinity();
  highest_ = -lowest_;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    add_values(calls_[i]);
    if (i < golds_ && !(calls_[i].mean <= calls_[best_].mean)) best_ = i;
  }
}

// The first call again.
void TriedReward::repeat() {
  const Answered again = ask(reward_, rows(), calls_.front().kind, asked_.front());
  for (std::size_t i = 0; i < again.values.size() && i < calls_.front().values.size(); ++i) {
    const double first = calls_.front().values[i], second = again.values[i];
    if (first != second && !(std::isnan(first) && std::isnan(second)))
      changed_ = format::number(first) + ", then " + format::number(second) + " (" + rows().row(i).where +
                 ", " + calls_.front().kind + ")";
  }
  seconds_ += again.seconds;
  call_seconds_ = again.seconds;  // the first call may load much
}

// What the scores depend on, with the gold that scores best, or with each row's own prompt as its answer;
// and on the right answer, in each of its forms.
void TriedReward::depend() {
  const bool golds = golds_ > 0;
  const Texts texts = golds ? asked_[best_] : rows().prompts();
  const Answered first = golds ? calls_[best_] : ask(reward_, rows(), "the prompt, copied", texts);
  dependence_ = test_dependence(reward_, rows(), texts, first);
  seconds_ += 3 * first.seconds;
  if (const Answered* const junk = asked("junk"); golds && junk != nullptr && !late()) {
    add_call_dependence(dependence_, reward_, rows(), texts, first, same(rows().size(), kJunk), *junk);
    seconds_ += first.seconds;
  }
  for (std::size_t i = 0; i < golds_ && !late(); ++i) {
    add_gold_dependence(gold_, reward_, rows(), asked_[i], calls_[i], column_);
    seconds_ += calls_[i].seconds;
  }
  if (dependence_.is_any()) gold_ = {};  // then two calls are not to be compared
}

void TriedReward::ask_adversaries() {
  const Texts best = asked_[best_];  // a copy: the list grows
  Texts others = best;
  std::rotate(others.begin(), others.begin() + 1, others.end());
  bool all_differ = others.size() > 1;
  for (std::size_t i = 0; i < others.size(); ++i) all_differ = all_differ && others[i] != best[i];
  Texts five, filled;
  for (const std::string& text : best) {
    five.push_back(text + " " + text + " " + text + " " + text + " " + text);
    filled.push_back(text + std::string(400, ' ') + std::string(kJunk));
  }
  if (all_differ && !late()) ask_more("another row's gold", others);
  if (!late()) ask_more("gold five times", five);
  if (!late()) ask_more("gold and filler", filled);
  const Texts whole = whole_numbers(rows(), column_);
  if (!whole.empty() && !late()) ask_more(kAsWholeNumber, whole);
}

void TriedReward::forget() {
  calls_.clear();
  asked_.clear();
  failures_.clear();
  values_.clear();
  best_ = golds_ = 0;
  error_.clear();
  changed_.clear();
  together_ = false;
  dependence_ = {};
  gold_ = {};
  attacks_ = {};
  lowest_ = std::numeric_limits<double>::infinity();
  highest_ = -lowest_;
}

// Calls that cost next to nothing, and nobody's money.
bool TriedReward::can_ask_widely() const {
  return !model_ && !of_every_call_ && !word_is_url();
}

std::int64_t TriedReward::rows_without_score() const {
  std::int64_t out = 0;
  for (std::size_t i = 0; i < rows().size(); ++i) {
    out += std::none_of(calls_.begin(), calls_.end(), [i](const Answered& one) {
      return i < one.values.size() && !std::isnan(one.values[i]);
    });
  }
  return out;
}

// Of a call with one of the answers that telling_answers() has. Of the call that was repeated the quicker one counts: the
// other may have loaded much, or waited for a busy machine.
double TriedReward::telling_seconds() const {
  if (calls_.empty()) return 0;
  const Answered* const junk = asked("junk");
  const double wrong = junk != nullptr ? junk->seconds : 0;
  const double right = best_ == 0 ? std::min(calls_.front().seconds, call_seconds_) : calls_[best_].seconds;
  return std::max(wrong, right);
}

// Of the data's rows, all or many of them, those with a score, or with another one than all that was asked
// so far. Sets seen_all_ where there are none and every row was asked every kind of answer.
std::vector<std::size_t> TriedReward::telling_rows() {
  const bool same_for_all = constant();
  const double usual = highest_;
  const double seconds = telling_seconds();
  const double each = seconds / static_cast<double>(rows().size());
  const double most = each > 0 ? kWideSeconds / 2 / each : static_cast<double>(kWideRows);
  const train::PolicyPrompts& prompts = rows().prompts_of_run();
  const double least = seconds < kQuickCall ? static_cast<double>(kQuickWideRows) : 1;
  const auto count = static_cast<std::size_t>(std::clamp(most, least, static_cast<double>(kWideRows)));
  const RewardRows wide(rows(), draw_rows(prompts, std::max(count, rows().size())));
  // A row may be scored in one form only: where all can be asked and none has a score so far, in every
  // form.
  const bool every_kind = values_.empty() && wide.size() == prompts.rows.size();
  bool complete = every_kind;
  std::set<std::size_t> found;
  for (const auto& [kind, texts] : every_kind ? all_answers(wide) : telling_answers(wide)) {
    if (every_kind && late()) {
      complete = false;
      break;
    }
    const Answered one = ask(reward_, wide, kind, texts);
    seconds_ += one.seconds;
    for (std::size_t i = 0; i < one.values.size(); ++i) {
      const double value = one.values[i];
      if (std::isfinite(value) && (!same_for_all || value != usual)) found.insert(wide.place(i));
    }
  }
  seen_all_ = found.empty() && complete;
  return {found.begin(), found.end()};
}

// Of each kind that ask_all() asks the drawn rows.
NamedTexts TriedReward::all_answers(const RewardRows& rows) const {
  NamedTexts out;
  if (!column_.empty()) out = rows.gold_answers(column_);
  for (auto& one : other_answers(rows)) out.push_back(std::move(one));
  return out;
}

// A wrong answer and the right one in the form that scored best.
NamedTexts TriedReward::telling_answers(const RewardRows& rows) const {
  NamedTexts out = {{"junk", same(rows.size(), kJunk)}};
  if (column_.empty()) return out;
  NamedTexts golds = rows.gold_answers(column_);
  out.push_back(golds[std::min(best_, golds.size() - 1)]);
  return out;
}

// Wrong for any row, the most usual one first: a function may raise for an empty completion, and be right.
NamedTexts TriedReward::other_answers(const RewardRows& rows) const {
  constexpr std::int64_t kMostWords = 512, kWordsOfJunk = 9;
  std::string longer;
  const std::int64_t words = std::min(kMostWords, known_.most_tokens);
  for (std::int64_t i = 0; i < words; i += kWordsOfJunk) longer.append(kJunk).append(1, ' ');
  return {{"the prompt, copied", rows.prompts()},
          {"junk", same(rows.size(), kJunk)},
          {"long junk", same(rows.size(), longer)},
          {"only format tags", same(rows.size(), rows.opens_thinking() ? kTagsAfterThink : kTags)},
          {"empty", same(rows.size(), "")}};
}

}  // namespace hone::doctor
