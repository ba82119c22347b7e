// Probe P8 (docs/design.md): rewards tried on answers whose quality is known, right ones from a column of the
// data that holds them, and junk; and by experiment what a score depends on. Before a run for at most ten
// seconds in all, unless probe_rewards is false. A few rows and answers prove little: a failure is what was
// seen of every row of the data (a function that never gives a score), or of any call. What a function does
// with the answers of the probe is a warning, with `--deep` too, which asks twice as many rows.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "doctor/checks/check_format.h"
#include "doctor/examination.h"
#include "doctor/probes/drawn_rows.h"
#include "doctor/probes/reward_answers.h"
#include "doctor/probes/reward_columns.h"
#include "doctor/probes/reward_dependence.h"
#include "doctor/probes/reward_forms.h"
#include "doctor/probes/reward_sums.h"
#include "rewards/open_reward.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr std::size_t kQuickRows = 8, kDeepRows = 16;
constexpr double kPatience = 10;  // seconds of all rewards together, before a run
constexpr std::size_t kWideRows =
    2048;  // asked when the drawn ones tell nothing, or some of them have no score
constexpr std::size_t kQuickWideRows = 512;  // at least, of calls that are over sooner than
constexpr double kQuickCall = 0.5;           // seconds
constexpr double kWideSeconds = 2;           // about; two calls
constexpr std::size_t kVaried = 5;           // kinds of answers, before all scores are called the same
constexpr double kSlow = 1;                  // seconds a call
constexpr double kUnreadable = 0.5;          // share of golds
constexpr double kPairs = 0.7;               // a reward model's right answers (RL-06)
constexpr const char* kJunk = "lorem ipsum qx zzyx blah blah, und so weiter";
// What a template has opened in the prompt, no completion begins with.
constexpr const char* kTagsAfterThink = "\n</think>\n<answer>\n</answer>\n\\boxed{}\n#### ";
constexpr const char* kAsWholeNumber = "gold as a whole number";
constexpr const char* kTags = "<think>\n</think>\n<answer>\n</answer>\n\\boxed{}\n#### ";

Texts same(std::size_t rows, const std::string& text) {
  return Texts(rows, text);
}

std::string mean_of(const Answered& one) {
  return std::isnan(one.mean) ? "no score" : format::number(one.mean);
}

// One reward.
class RewardProbe {
 public:
  RewardProbe(rewards::Reward& reward, const std::string& word, std::vector<std::string> needed,
              const RewardRows& rows, Depth depth, double patience, std::int64_t most_tokens)
      : reward_(reward),
        word_(word),
        needed_(std::move(needed)),
        rows_(&rows),
        deep_(depth == Depth::kDeep),
        patience_(patience),
        most_tokens_(most_tokens),
        user_code_(rewards::is_user_code(word)),
        model_(rewards::is_model(word)) {}

  // `any_gold`: the column that the data call the answer; "" when there is none.
  void run(const std::string& any_gold) {
    column_ = gold_of(any_gold);
    ask_all();
    if (!can_ask_widely() || late()) return;
    const bool tells = !values_.empty() && (!user_code_ || (!constant() && rows_without_score() == 0));
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

  double seconds() const { return seconds_; }
  // It gave every answer one score, of at least kVaried kinds.
  bool constant() const { return calls_.size() >= kVaried && lowest_ == highest_; }
  // ... a score of its row's, whatever the answer.
  bool same_in_each_row() const {
    return calls_.size() >= kVaried && lowest_ < highest_ && is_of_row(calls_);
  }
  // ... None.
  bool scores_none() const {
    return !calls_.empty() && values_.empty() && failures_.empty() && error_.empty();
  }

  // `only`: the run has no other reward, or none of them says more.
  Verdicts verdicts(bool only) const {
    Verdicts out;
    if (gold_.is_turned()) out.push_back(judge_sign());  // before all that follows from it
    out.push_back(judge_calls(only));
    const std::optional<Verdict> absent = absent_column();
    if (absent) out.push_back(*absent);
    if (absent && absent->level == Level::kWarn) return out;  // the rest follows from it
    if (model_) out.push_back(judge_model());
    if (calls_.empty() || gold_.is_turned() || out[0].level == Level::kFail) return out;
    if (values_.empty() && user_code_) return out;
    if (user_code_ && ((constant() && highest_ > 0) || same_in_each_row())) {
      out.push_back(judge_constant(only));
      return out;
    }
    if (dependence_.is_any()) {  // then one call's scores say nothing of another's
      append_verdicts(out, judge_dependence(dependence_, name()));
      return out;
    }
    if (!column_.empty()) out.push_back(judge_gold(only));
    if (reads_gold() && asked("only format tags") != nullptr) out.push_back(judge_adversaries());
    if (auto numbers = judge_numbers()) out.push_back(*std::move(numbers));
    if (auto room = judge_cap()) out.push_back(*std::move(room));
    return out;
  }

  // For judge_sums(); none where it was asked other rows than the others.
  std::optional<ScoredAnswers> scored(double weight) const {
    if (own_rows_ != nullptr || calls_.empty() || !error_.empty()) return std::nullopt;
    const Answered* const junk = asked("junk");
    const bool pays = reads_gold() && junk != nullptr && golds_ > 0 && calls_[best_].mean > junk->mean;
    return ScoredAnswers{
        .name = reward_.name(), .weight = weight, .pays_right = pays, .golds = golds_, .calls = &calls_};
  }

 private:
  static void append_verdicts(Verdicts& out, Verdicts more) {
    for (Verdict& one : more) out.push_back(std::move(one));
  }
  bool late() const { return !deep_ && seconds_ >= patience_; }
  // It asks for the column of right answers by name, or its scores depend on it; a column like `task` is
  // another matter.
  bool reads_gold() const {
    if (column_.empty()) return false;
    const bool asks = std::find(needed_.begin(), needed_.end(), column_) != needed_.end();
    return asks || gold_.on_column();
  }
  const RewardRows& rows() const { return *rows_; }
  AskedForms forms() const {
    return {.calls = calls_, .texts = asked_, .golds = golds_, .lowest = lowest_, .highest = highest_};
  }

  std::optional<Verdict> absent_column() const {
    if (!user_code_ || calls_.empty()) return std::nullopt;
    const ScoresTell scores = !error_.empty() || !failures_.empty() ? ScoresTell::kError
                              : constant() || scores_none()         ? ScoresTell::kNothing
                                                                    : ScoresTell::kSomething;
    return judge_absent_columns({.needed = needed_, .looked_up = reward_.read_columns(), .reward = name()},
                                rows(), scores);
  }
  std::optional<Verdict> judge_numbers() const {
    const Answered* const whole = asked(kAsWholeNumber);
    if (whole == nullptr) return std::nullopt;
    return judge_whole_numbers(calls_[best_], *whole, whole_numbers(rows(), column_), name(), column_);
  }
  std::optional<Verdict> judge_cap() const {
    if (asked("empty") == nullptr) return std::nullopt;  // there was no time for all
    return judge_room(forms(), rows(), most_tokens_, name());
  }

  void ask_all() {
    if (!column_.empty()) {
      for (const auto& [kind, texts] : rows().gold_answers(column_)) {
        if (!calls_.empty() && late()) break;  // a slow one has been asked enough
        if (!ask_more(kind, texts)) return;
        if (calls_.size() == 1 || calls_.back().mean > calls_[best_].mean || std::isnan(calls_[best_].mean)) {
          best_ = calls_.size() - 1;
          best_texts_ = texts;
        }
      }
      golds_ = calls_.size();
    }
    for (const auto& [kind, texts] : other_answers(rows())) {
      if (!calls_.empty() && late()) return;
      if (!ask_more(kind, texts)) return;
    }
    if (values_.empty()) return;
    repeat();
    if (user_code_ && changed_.empty() && !late()) depend();
    if (reads_gold() && !gold_.is_turned()) ask_adversaries();
  }

  void forget() {
    calls_.clear();
    asked_.clear();
    failures_.clear();
    values_.clear();
    best_texts_.clear();
    best_ = golds_ = 0;
    error_.clear();
    changed_.clear();
    dependence_ = {};
    gold_ = {};
    lowest_ = std::numeric_limits<double>::infinity();
    highest_ = -lowest_;
  }

  // Calls that cost next to nothing, and nobody's money.
  bool can_ask_widely() const { return !model_ && !of_every_call_ && !word_.starts_with("http"); }

  std::int64_t rows_without_score() const {
    std::int64_t out = 0;
    for (std::size_t i = 0; i < rows().size(); ++i) {
      out += std::none_of(calls_.begin(), calls_.end(), [i](const Answered& one) {
        return i < one.values.size() && !std::isnan(one.values[i]);
      });
    }
    return out;
  }

  // Of the data's rows, all or many of them, those with a score, or with another one than all that was asked
  // so far. Sets seen_all_ where there are none and every row was asked every kind of answer.
  std::vector<std::size_t> telling_rows() {
    const bool same_for_all = constant();
    const double usual = highest_;
    const double each = calls_.empty() ? 0 : calls_.back().seconds / static_cast<double>(rows().size());
    const double most = each > 0 ? kWideSeconds / 2 / each : static_cast<double>(kWideRows);
    const train::PolicyPrompts& prompts = rows().prompts_of_run();
    const bool quick = calls_.empty() || calls_.back().seconds < kQuickCall;
    const double least = quick ? static_cast<double>(kQuickWideRows) : 1;
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
  NamedTexts all_answers(const RewardRows& rows) const {
    NamedTexts out;
    if (!column_.empty()) out = rows.gold_answers(column_);
    for (auto& one : other_answers(rows)) out.push_back(std::move(one));
    return out;
  }

  // A wrong answer and the right one in the form that scored best.
  NamedTexts telling_answers(const RewardRows& rows) const {
    NamedTexts out = {{"junk", same(rows.size(), kJunk)}};
    if (column_.empty()) return out;
    NamedTexts golds = rows.gold_answers(column_);
    out.push_back(golds[std::min(best_, golds.size() - 1)]);
    return out;
  }

  // Wrong for any row, the most usual one first: a function may raise for an empty completion, and be right.
  NamedTexts other_answers(const RewardRows& rows) const {
    constexpr std::int64_t kMostWords = 512, kWordsOfJunk = 9;
    std::string longer;
    const std::int64_t words = std::min(kMostWords, most_tokens_);
    for (std::int64_t i = 0; i < words; i += kWordsOfJunk) longer.append(kJunk).append(1, ' ');
    return {{"the prompt, copied", rows.prompts()},
            {"junk", same(rows.size(), kJunk)},
            {"long junk", same(rows.size(), longer)},
            {"only format tags", same(rows.size(), rows.opens_thinking() ? kTagsAfterThink : kTags)},
            {"empty", same(rows.size(), "")}};
  }

  // What the scores depend on, with the gold that scores best, or with each row's own prompt as its answer;
  // and on the right answer, in each of its forms.
  void depend() {
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

  void ask_adversaries() {
    Texts others = best_texts_;
    std::rotate(others.begin(), others.begin() + 1, others.end());
    bool all_differ = others.size() > 1;
    for (std::size_t i = 0; i < others.size(); ++i) all_differ = all_differ && others[i] != best_texts_[i];
    Texts five, filled;
    for (const std::string& text : best_texts_) {
      five.push_back(text + " " + text + " " + text + " " + text + " " + text);
      filled.push_back(text + std::string(400, ' ') + std::string(kJunk));
    }
    if (all_differ && !late()) ask_more("another row's gold", others);
    if (!late()) ask_more("gold five times", five);
    if (!late()) ask_more("gold and filler", filled);
    const Texts whole = whole_numbers(rows(), column_);
    if (!whole.empty() && !late()) ask_more(kAsWholeNumber, whole);
  }

  // RL-02 before anything is sampled.
  Verdict judge_constant(bool only) const {
    const bool compares = std::find(needed_.begin(), needed_.end(), column_) != needed_.end();
    return judge_one_score(forms(), rows(), name(), compares ? column_ : "", only);
  }

  std::string name() const { return "reward " + reward_.name(); }

  std::string gold_of(const std::string& any_gold) const {
    if (std::find(needed_.begin(), needed_.end(), any_gold) != needed_.end()) return any_gold;
    // Of ours the column that it names is the answer; of the user's any other may be test cases, or whatever.
    if (!user_code_ && !needed_.empty() && rows().has(needed_.front())) return needed_.front();
    return any_gold;
  }

  // False: that is enough, something is wrong.
  bool ask_more(const std::string& kind, const Texts& texts) {
    Answered one = ask(reward_, rows(), kind, texts);
    if (error_.empty() && !one.error.empty()) error_ = kind + ": " + one.error;
    of_every_call_ = of_every_call_ || one.every_call;
    seconds_ += one.seconds;
    for (const double value : one.values) {
      if (!std::isfinite(value)) continue;
      lowest_ = std::min(lowest_, value);
      highest_ = std::max(highest_, value);
      if (values_.size() < 3) values_.insert(value);
    }
    failures_.insert(failures_.end(), one.failures.begin(), one.failures.end());
    calls_.push_back(std::move(one));
    asked_.push_back(texts);
    return !of_every_call_;
  }

  // The first call again.
  void repeat() {
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

  const Answered* asked(const std::string& kind) const {
    const auto found =
        std::find_if(calls_.begin(), calls_.end(), [&](const Answered& one) { return one.kind == kind; });
    return found == calls_.end() ? nullptr : &*found;
  }

  // RL-05
  Verdict judge_calls(bool only) const {
    Verdict out{.code = "RL-05"};
    if (calls_.empty()) {
      out.level = Level::kNote;
      out.what = name() + " was not called";
      return out;
    }
    if (!error_.empty()) {
      const bool never = of_every_call_ || (values_.empty() && seen_all_);
      out.level = never ? Level::kFail : Level::kWarn;  // it has scored others, or may score them
      out.what = name() + " cannot score a batch";
      out.evidence = error_;
      out.cause = "the function itself";
      out.fix = "fix it, then test it with hone reward-test";
      out.cost = values_.empty() ? "the run ends at its first rewards" : "samples without a reward";
      return out;
    }
    if (!failures_.empty()) {
      out.level = values_.empty() && seen_all_ ? Level::kFail : Level::kWarn;
      out.what = name() + " does not score " +
                 format::counted(static_cast<std::int64_t>(failures_.size()), "answer") + " of " +
                 std::to_string(calls_.size() * rows().size());
      out.evidence = failures_.front();
      for (std::size_t i = 1; i < std::min<std::size_t>(3, failures_.size()); ++i)
        out.evidence += "; " + failures_[i];
      out.cause = "an exception, a time-out, NaN or infinity for these answers";
      out.fix = "return a finite number, or None for a sample that is not to be scored";
      out.cost = "samples without a reward in every batch with such an answer";
      return out;
    }
    if (user_code_ && scores_none()) {  // of a built-in one the data are the cause, which judge_gold() names
      out.level = only && seen_all_ ? Level::kFail : only || seen_all_ ? Level::kWarn : Level::kNote;
      out.what = name() + " gives None to every answer, right ones too";
      out.evidence =
          format::counted(static_cast<std::int64_t>(calls_.size()), "kind of answers", "kinds of answers") +
          " for " + format::counted(static_cast<std::int64_t>(rows().size()), "row") +
          (seen_all_ ? "; each of them for every row of the data" : "");
      out.cause = "it returns None for each sample: suspected, a branch that never returns a number";
      out.not_this = "an exception or a time-out: the calls returned";
      out.fix = "return a finite number for the samples that it is to score";
      out.cost = only ? "no sample has a reward, so that nothing is learned" : "this reward does not count";
      return out;
    }
    out.what = name() + ": " + format::counted(static_cast<std::int64_t>(rows().size()), "finite number") +
               (calls_.size() > 1 ? " in each of " + std::to_string(calls_.size()) + " calls" : "") +
               ", the same when repeated";
    out.evidence = format::number(call_seconds_) + " s a call";
    if (!changed_.empty()) {
      out.level = Level::kWarn;
      out.what = name() + " gives the same answer a different score when called again";
      out.evidence = changed_;
      out.cause = "suspected: it draws random numbers, or remembers earlier calls";
      out.fix = "make it depend only on its arguments";
      out.cost = "noisy advantages, and runs that cannot be reproduced";
    } else if (call_seconds_ > kSlow) {
      out.level = Level::kWarn;
      out.what = name() + " takes " + format::number(call_seconds_) + " s for " +
                 format::counted(static_cast<std::int64_t>(rows().size()), "answer");
      out.cause = "the function itself";
      out.fix = "reward_workers: 2 or more, or a faster function";
      out.cost = "rewards run in parallel with generation; if they take longer, the run waits";
    }
    return out;
  }

  // Right or wrong, and of two equal answers only the one without line breaks is right, in every row.
  bool one_line_only() const {
    const Answered *const one = asked(kOneLine), *const several = asked(kSeveralLines);
    return one != nullptr && several != nullptr && values_.size() == 2 && one->none == 0 &&
           several->none == 0 && one->mean == highest_ && several->mean == lowest_;
  }

  // A form that the template has begun already, so that no completion can have it whole (TRL#6966).
  bool wants_think_tag() const {
    return rows().opens_thinking() && highest_ == 0 &&
           (user_code_ || word_.find("think") != std::string::npos);
  }

  // RL-04 of a reward that reads no column with a right answer.
  Verdict judge_without_gold(Verdict out, const std::string& shown) const {
    if (lowest_ == highest_) {
      out.level = wants_think_tag() ? Level::kWarn : Level::kNote;
      out.what = name() + " gives every tested completion " + format::number(highest_);
      out.evidence += (out.evidence.empty() ? "" : "; ") + shown;
      if (out.level == Level::kWarn) {
        out.cause =
            "suspected: the chat template opens <think> in the prompt, but the reward requires it in the "
            "completion";
        out.fix = "use a template that leaves <think> to the model, or a reward that only requires </think>";
        out.cost = "a reward that does not change during the run";
      }
    }
    return out;
  }

  // RL-04 of a reward that gives all forms of the right answer the same.
  Verdict never_pays(Verdict out, const std::string& shown) const {
    out.level = Level::kWarn;
    out.what =
        name() + " gives the correct answer " + format::number(highest_) + " in " +
        (golds_ == 1 ? "the one form that was" : "all " + std::to_string(golds_) + " forms that were") +
        " tested" + (calls_.size() > golds_ ? ", as to junk" : "");
    out.evidence = shown + (calls_.size() > 1 ? ", then " + calls_[1].kind + " and other forms" : "");
    out.cause =
        "suspected: its pattern never matches (no DOTALL; a tag that the prompt's template already opened; "
        "another form of answer)";
    out.fix = "compare the string above with its pattern; hone reward-test shows more";
    out.cost = "a reward that does not change during the run";
    return out;
  }

  // RL-04, by answers that keep their text and get another row's gold.
  Verdict judge_sign() const {
    const auto count = static_cast<double>(gold_.disagrees);
    Verdict out{.code = "RL-04", .level = Level::kWarn};
    out.what = name() + " has the wrong sign: right answers score lower than wrong ones";
    out.evidence = format::counted(gold_.disagrees, "right answer") + " with a mean of " +
                   format::number(gold_.own / count) + ", the same texts as wrong answers " +
                   format::number(gold_.other / count) + "; " + gold_.evidence;
    out.cause = "suspected: a sign that was turned, or a comparison that was negated: it reads the column " +
                column_ + ", and gives less for agreeing with it";
    out.not_this = "a reward that ignores the answer: with the gold of another row its scores change";
    out.fix = "turn the sign, unless right answers are to be avoided; hone reward-test shows its scores";
    out.cost = "the run learns to avoid right answers";
    return out;
  }

  // Right answers without a score whose row has a gold: of another task's rows None is what TRL asks for.
  std::int64_t unreadable(const Answered& best) const {
    std::int64_t out = 0;
    for (std::size_t i = 0; i < std::min(best.values.size(), rows().size()); ++i) {
      const auto gold = format::column_text(rows().row(i).columns, column_);
      out += std::isnan(best.values[i]) && gold && (values_.empty() || !gold->empty());
    }
    return user_code_ ? 0 : out;
  }

  // Rows of other tasks, as far as they were drawn.
  Verdict scores_no_row(Verdict out, bool only) const {
    out.level = only && seen_all_ ? Level::kWarn : Level::kNote;
    out.what = name() + " scored none of the answers for " +
               format::counted(static_cast<std::int64_t>(rows().size()), "row");
    out.evidence = seen_all_ ? "no row of the data has a score" : "of the rows that were drawn";
    out.cause = "the column " + column_ + " is empty in these rows";
    out.fix = "fill in the column " + column_;
    return out;
  }

  // RL-04
  Verdict judge_gold(bool only) const {
    Verdict out{.code = "RL-04"};
    const Answered& best = calls_[best_];
    const auto count = static_cast<std::int64_t>(rows().size());
    out.what = name() + ": the right answer scores " + mean_of(best) + " (" + best.kind + ")";
    for (const Answered& one : calls_) {
      if (&one != &best) out.evidence += (out.evidence.empty() ? "" : ", ") + one.kind + " " + mean_of(one);
    }
    const std::string shown = "it received `" + format::shown(asked_[best_].front()) + "`";
    const std::int64_t unread = unreadable(best);
    if (reads_gold() && static_cast<double>(unread) > kUnreadable * static_cast<double>(count)) {
      out.level = only && values_.empty() && seen_all_ ? Level::kFail : Level::kWarn;
      out.what = name() + " gives no score to " + std::to_string(unread) + " of " +
                 format::counted(count, "right answer");
      out.cause = "it cannot parse the column " + column_;
      out.fix = "look at " + rows().row(0).where + ": `" +
                format::shown(format::column_text(rows().row(0).columns, column_).value_or("null")) + "`";
      out.cost = "samples without a reward";
      return out;
    }
    if (values_.empty()) return scores_no_row(std::move(out), only);
    if (one_line_only()) {
      out.level = Level::kWarn;  // a model may well answer in one line
      out.what = name() + " matches an answer on one line, but not the same answer with line breaks";
      out.evidence = std::string(kOneLine) + " " + format::number(highest_) + ", " + kSeveralLines + " " +
                     format::number(lowest_);
      out.cause = "a dot in the pattern that does not match a line break";
      out.fix = "regex(..., dotall=true), or re.DOTALL in your own function";
      out.cost = "a reward that stays at its minimum, since reasoning has several lines";
      return out;
    }
    if (!reads_gold()) return judge_without_gold(std::move(out), shown);
    if (auto whole = judge_whole_text(forms(), name(), column_)) return *std::move(whole);
    const Answered *const junk = asked("junk"), *const empty = asked("empty"),
                          *const other = asked("another row's gold");
    const auto no_better = [&](const Answered* than) { return than != nullptr && !(best.mean > than->mean); };
    const bool never = lowest_ == highest_;
    if (!never && (no_better(junk) || no_better(empty) || no_better(other))) {
      const Answered& than = no_better(junk) ? *junk : no_better(empty) ? *empty : *other;
      const bool read = !user_code_ || gold_.on_column();
      out.level = Level::kWarn;
      out.what = name() + ": the right answer scores " + mean_of(best) + ", no more than " +
                 (than.kind == "empty" ? "an empty one" : than.kind) + " (" + mean_of(than) + ")";
      out.cause = read
                      ? "suspected: something else weighs more in it than agreeing with the column " + column_
                      : "the reward does not look at the column " + column_ +
                            ": with the gold of another row its scores stay the same, in all " +
                            format::counted(static_cast<std::int64_t>(golds_), "form") + " of the answer";
      out.fix = "hone reward-test shows its scores answer by answer";
      out.cost = "the run learns something else";
      return out;
    }
    if (never && calls_.size() == golds_ && highest_ > 0) {
      out.what = name() + " gives every tested correct answer " + format::number(highest_);
      out.evidence = format::counted(static_cast<std::int64_t>(golds_), "form") +
                     " of it; there was no time for wrong answers";
      return out;
    }
    if (never) return never_pays(std::move(out), shown);
    if (unread > 0) {
      out.level = Level::kWarn;
      out.what += "; " + std::to_string(unread) + " of " + format::counted(count, "right answer") +
                  (unread == 1 ? " gets none" : " get none");
      out.cause = "it cannot parse some values of the column " + column_;
      out.fix = "remove such rows from the data";
    }
    return out;
  }

  // RL-07
  Verdict judge_adversaries() const {
    Verdict out{.code = "RL-07"};
    const Answered& best = calls_[best_];
    std::string table;
    for (const char* const kind :
         {"only format tags", "the prompt, copied", "gold five times", "gold and filler"}) {
      const Answered* const one = asked(kind);
      if (one == nullptr) continue;
      table += (table.empty() ? "" : ", ") + std::string(kind) + " " + mean_of(*one);
      const bool holds_gold = std::string_view(kind).starts_with("gold");
      const bool wins = holds_gold ? one->mean > best.mean : one->mean >= best.mean;
      if (!wins || lowest_ == highest_) continue;
      out.level = Level::kWarn;
      out.what = name() + ": " + kind + " earns " + mean_of(*one) + ", the right answer " + mean_of(best);
    }
    out.evidence = table;
    if (out.level == Level::kOk) {
      out.what = name() + ": no degenerate answer scores as high as the correct one (" + mean_of(best) + ")";
      return out;
    }
    out.cause = "the reward can be maximal without an answer";
    if (out.what.find(": the prompt, copied earns") != std::string::npos && prompts_hold_answers())
      out.cause = "the prompts hold their answers, and the reward pays for repeating them";
    out.fix = "give other rewards only to correct answers, and count an answer once";
    out.cost = "a rising reward while answers get worse";
    return out;
  }

  // The texts of the prompts' last turns, of most rows.
  bool prompts_hold_answers() const {
    const Texts prompts = rows().prompts();
    std::size_t holding = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const std::string gold = format::column_text(rows().row(i).columns, column_).value_or("");
      holding += !gold.empty() && prompts[i].find(gold) != std::string::npos ? 1 : 0;
    }
    return 2 * holding > prompts.size();
  }

  // RL-06. That score.weight is there, [1, hidden], was looked at when the folder was opened.
  Verdict judge_model() const {
    Verdict out{.code = "RL-06"};
    out.what = name() + ": its head score.weight is in the file, one label";
    const Answered* const junk = asked("junk");
    if (column_.empty() || junk == nullptr || calls_.empty()) return out;
    std::size_t right = 0;
    const std::vector<double>& gold = calls_[best_].values;
    for (std::size_t i = 0; i < std::min(gold.size(), junk->values.size()); ++i)
      right += gold[i] > junk->values[i] ? 1 : 0;
    const auto pairs = static_cast<double>(gold.size()), won = static_cast<double>(right);
    out.evidence = "correct answers above junk in " + std::to_string(right) + " of " +
                   format::counted(static_cast<std::int64_t>(gold.size()), "row");
    if (won >= kPairs * pairs) return out;
    out.level = Level::kWarn;
    out.what = name() + " tells correct answers from junk in " + format::percent(won, pairs) + " of the rows";
    out.cause =
        "suspected: its head was newly initialized when it was saved, or it was trained for something else";
    out.fix = "use a reward model that was trained on this kind of answer";
    out.cost = "a reward that rises while quality does not";
    return out;
  }

  rewards::Reward& reward_;
  std::string word_;  // as reward_funcs has it
  std::vector<std::string> needed_;
  const RewardRows* rows_;
  std::unique_ptr<RewardRows>
      own_rows_;  // those that it scores, where the given ones are also of other tasks
  bool deep_;
  double patience_;
  std::int64_t most_tokens_;
  bool user_code_, model_;
  RewardDependence dependence_;
  GoldDependence gold_;
  // Every row of the data was asked, and none of them told anything; an error that any call ends in.
  bool seen_all_ = false, of_every_call_ = false;
  std::string column_;
  std::vector<Answered> calls_;
  std::vector<Texts> asked_;
  std::size_t best_ = 0, golds_ = 0;
  Texts best_texts_;
  std::vector<std::string> failures_;
  std::string error_, changed_;
  double seconds_ = 0, call_seconds_ = 0;
  std::set<double> values_;  // the first three different ones
  double lowest_ = std::numeric_limits<double>::infinity(),
         highest_ = -std::numeric_limits<double>::infinity();
};

constexpr const char* kNoted = "rewards were not called: probe_rewards is false";

// Rewards of the run's own training; `left` seconds.
Verdicts probe_training(train::OpenedRun& run, Depth depth, double& left) {
  const train::SampledData& data = run.sampled();
  const RewardRows rows(run, data.train_prompts, depth == Depth::kDeep ? kDeepRows : kQuickRows);
  const std::string gold = format::gold_column(data.train_prompts);
  std::vector<RewardProbe> trials;
  for (std::size_t i = 0; i < data.rewards.size(); ++i) {
    trials.emplace_back(*data.rewards[i], run.plan.policy.reward_funcs[i],
                        i < data.columns.size() ? data.columns[i] : std::vector<std::string>(), rows, depth,
                        left, run.plan.policy.max_completion_length);
    trials.back().run(gold);
    left = std::max(0.0, left - trials.back().seconds());
  }
  const bool silent = std::all_of(trials.begin(), trials.end(), [](const RewardProbe& one) {
    return one.constant() || one.same_in_each_row() || one.scores_none();
  });
  Verdicts out;
  std::vector<ScoredAnswers> scored;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    for (Verdict& one : trials[i].verdicts(silent)) out.push_back(std::move(one));
    const std::vector<double>& weights = run.plan.policy.reward_weights;
    if (auto one = trials[i].scored(i < weights.size() ? weights[i] : 1.0)) scored.push_back(*std::move(one));
  }
  if (scored.size() == trials.size()) {
    for (Verdict& one : judge_sums(scored)) out.push_back(std::move(one));
  }
  // The run's calls find them as a run without an examination does.
  for (const auto& reward : data.rewards) reward->reset();
  return out;
}

// The column with right answers: the data's own name for it, or what the rows are trained to say.
std::string gold_of_evaluation(const train::PolicyPrompts& prompts) {
  std::string out = format::gold_column(prompts);
  for (const char* name : {"completion", "chosen"}) {
    if (out.empty() && prompts.rows.front().columns.contains(name)) out = name;
  }
  return out;
}

// What a fault costs where nothing is trained on the scores: only a function that cannot be called stops the run.
Verdict of_evaluation(Verdict one) {
  one.what = "evaluation: " + one.what;
  if (one.code != "RL-05" && one.level == Level::kFail) one.level = Level::kWarn;
  if (!one.cost.empty()) one.cost = "its numbers in evaluations say little of the model";
  return one;
}

// Those of eval_reward_funcs that the training does not have.
Verdicts probe_evaluation(train::OpenedRun& run, Depth depth, double& left) {
  const train::RunSampler& sampler = *run.sampler;
  const std::vector<std::string>& known = run.plan.policy.reward_funcs;
  const RewardRows rows(run, sampler.scored_prompts(), depth == Depth::kDeep ? kDeepRows : kQuickRows);
  Verdicts out;
  for (std::size_t i = 0; i < sampler.rewards().size(); ++i) {
    const std::string& word = run.plan.eval_reward_funcs[i];
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    RewardProbe trial(*sampler.rewards()[i], word, sampler.columns()[i], rows, depth, left,
                      run.plan.sample_max_new_tokens);
    trial.run(gold_of_evaluation(sampler.scored_prompts()));
    left = std::max(0.0, left - trial.seconds());
    for (Verdict& one : trial.verdicts(/*only=*/false)) out.push_back(of_evaluation(std::move(one)));
    sampler.rewards()[i]->reset();
  }
  return out;
}

}  // namespace

bool has_rewards(const train::OpenedRun& run) {
  const bool trains =
      run.samples() && !run.sampled().train_prompts.rows.empty() && !run.sampled().rewards.empty();
  return trains || run.plan.scores_completions();
}

Verdicts probe_reward(train::OpenedRun& run, Depth depth) {
  if (!has_rewards(run)) return {};
  if (!run.plan.probe_rewards && depth == Depth::kRun)
    return {{.code = "RL-05", .level = Level::kNote, .what = kNoted}};
  double left = kPatience;
  Verdicts out;
  if (run.samples() && !run.sampled().train_prompts.rows.empty() && !run.sampled().rewards.empty())
    out = probe_training(run, depth, left);
  if (run.plan.scores_completions()) {
    for (Verdict& one : probe_evaluation(run, depth, left)) out.push_back(std::move(one));
  }
  return out;
}

}  // namespace hone::doctor
