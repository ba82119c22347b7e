#include "doctor/probes/rewards/judge_reward.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "doctor/checks/check_format.h"
#include "doctor/probes/rewards/reward_columns.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr double kSlow = 1;          // seconds a call
constexpr double kUnreadable = 0.5;  // share of golds
constexpr double kPairs = 0.7;       // a reward model's right answers (RL-06)

std::string mean_of(const Answered& one) {
  return std::isnan(one.mean) ? "no score" : format::number(one.mean);
}

class RewardJudge {
 public:
  explicit RewardJudge(const TriedReward& tried) : tried_(tried) {}

  Verdicts verdicts(bool only) const {
    Verdicts out;
    if (tried_.gold_dependence().is_turned()) out.push_back(judge_sign());  // before all that follows from it
    out.push_back(judge_calls(only));
    const std::optional<Verdict> absent = absent_column();
    if (absent) out.push_back(*absent);
    if (absent && absent->level == Level::kWarn) return out;  // the rest follows from it
    if (tried_.is_model()) out.push_back(judge_model());
    if (tried_.calls().empty() || tried_.gold_dependence().is_turned() || out[0].level == Level::kFail)
      return out;
    if (tried_.values().empty() && tried_.is_user_code()) return out;
    if (tried_.is_user_code() && ((tried_.constant() && tried_.highest() > 0) || tried_.same_in_each_row())) {
      out.push_back(judge_constant(only));
      return out;
    }
    if (tried_.dependence().is_any()) {
      append_verdicts(out, judge_dependence(tried_.dependence(), tried_.name()));
      // One call's scores say nothing of another's.
      if (!tried_.asked_together() || tried_.dependence().on_order) return out;
    }
    if (!tried_.column().empty()) out.push_back(judge_gold(only));
    if (tried_.reads_gold() && tried_.asked("only format tags") != nullptr) {
      out.push_back(judge_adversaries());
      const bool found = out.back().level > Level::kOk;
      if (auto attack = found ? std::nullopt : judge_attacks(tried_)) out.push_back(*std::move(attack));
    }
    if (auto numbers = judge_numbers()) out.push_back(*std::move(numbers));
    if (auto room = judge_cap()) out.push_back(*std::move(room));
    return out;
  }

 private:
  static void append_verdicts(Verdicts& out, Verdicts more) {
    for (Verdict& one : more) out.push_back(std::move(one));
  }

  std::optional<Verdict> absent_column() const {
    if (!tried_.is_user_code() || tried_.calls().empty()) return std::nullopt;
    const ScoresTell scores = !tried_.error().empty() || !tried_.failures().empty() ? ScoresTell::kError
                              : tried_.constant() || tried_.scores_none()           ? ScoresTell::kNothing
                                                                                    : ScoresTell::kSomething;
    return judge_absent_columns({.needed = tried_.known().needed,
                                 .looked_up = tried_.reward().read_columns(),
                                 .reward = tried_.name()},
                                tried_.rows(), scores);
  }

  std::optional<Verdict> judge_numbers() const {
    const Answered* const whole = tried_.asked(kAsWholeNumber);
    if (whole == nullptr) return std::nullopt;
    return judge_whole_numbers(tried_.best(), *whole, whole_numbers(tried_.rows(), tried_.column()),
                               tried_.name(), tried_.column());
  }

  std::optional<Verdict> judge_cap() const {
    if (tried_.asked("empty") == nullptr) return std::nullopt;  // there was no time for all
    return judge_room(tried_.forms(), tried_.rows(), tried_.known().most_tokens, tried_.name());
  }

  // RL-02 before anything is sampled.
  Verdict judge_constant(bool only) const {
    const bool compares = std::find(tried_.known().needed.begin(), tried_.known().needed.end(),
                                    tried_.column()) != tried_.known().needed.end();
    return judge_one_score(tried_.forms(), tried_.rows(), tried_.name(), compares ? tried_.column() : "",
                           only);
  }

  Verdict judge_slow(Verdict out) const {
    out.level = Level::kWarn;
    out.what = tried_.name() + " takes " + format::number(tried_.call_seconds()) + " s for " +
               format::counted(static_cast<std::int64_t>(tried_.rows().size()), "answer");
    out.cause = tried_.is_user_code() ? "the function itself" : "it runs programs";
    out.fix = tried_.is_user_code()
                  ? "reward_workers: 2 or more, or a faster function"
                  : "of code: a higher parallel_code_exec_per_proc, or fewer test cases a row";
    out.cost = "rewards run in parallel with generation; if they take longer, the run waits";
    return out;
  }

  // RL-05
  Verdict judge_calls(bool only) const {
    Verdict out{.code = "RL-05"};
    if (tried_.calls().empty()) {
      out.level = Level::kNote;
      out.what = tried_.name() + " was not called";
      return out;
    }
    if (!tried_.error().empty()) {
      const bool never = tried_.fails_every_call() || (tried_.values().empty() && tried_.seen_all());
      out.level = never ? Level::kFail : Level::kWarn;  // it has scored others, or may score them
      out.what = tried_.name() + " cannot score a batch";
      out.evidence = tried_.error();
      out.cause = "the function itself";
      out.fix = "fix it, then test it with hone reward-test";
      out.cost = tried_.values().empty() ? "the run ends at its first rewards" : "samples without a reward";
      return out;
    }
    if (!tried_.failures().empty()) {
      out.level = tried_.values().empty() && tried_.seen_all() ? Level::kFail : Level::kWarn;
      out.what = tried_.name() + " does not score " +
                 format::counted(static_cast<std::int64_t>(tried_.failures().size()), "answer") + " of " +
                 std::to_string(tried_.calls().size() * tried_.rows().size());
      out.evidence = tried_.failures().front();
      for (std::size_t i = 1; i < std::min<std::size_t>(3, tried_.failures().size()); ++i)
        out.evidence += "; " + tried_.failures()[i];
      out.cause = "an exception, a time-out, NaN or infinity for these answers";
      out.fix = "return a finite number, or None for a sample that is not to be scored";
      out.cost = "samples without a reward in every batch with such an answer";
      return out;
    }
    if (tried_.is_user_code() &&
        tried_.scores_none()) {  // of a built-in one the data are the cause, which judge_gold() names
      out.level = only && tried_.seen_all()   ? Level::kFail
                  : only || tried_.seen_all() ? Level::kWarn
                                              : Level::kNote;
      out.what = tried_.name() + " gives None to every answer, right ones too";
      out.evidence = format::counted(static_cast<std::int64_t>(tried_.calls().size()), "kind of answers",
                                     "kinds of answers") +
                     " for " + format::counted(static_cast<std::int64_t>(tried_.rows().size()), "row") +
                     (tried_.seen_all() ? "; each of them for every row of the data" : "");
      out.cause = "it returns None for each sample: suspected, a branch that never returns a number";
      out.not_this = "an exception or a time-out: the calls returned";
      out.fix = "return a finite number for the samples that it is to score";
      out.cost = only ? "no sample has a reward, so that nothing is learned" : "this reward does not count";
      return out;
    }
    out.what =
        tried_.name() + ": " +
        format::counted(static_cast<std::int64_t>(tried_.rows().size()), "finite number") +
        (tried_.calls().size() > 1 ? " in each of " + std::to_string(tried_.calls().size()) + " calls" : "") +
        ", the same when repeated";
    out.evidence = format::number(tried_.call_seconds()) + " s a call";
    if (!tried_.changed().empty()) {
      out.level = Level::kWarn;
      out.what = tried_.name() + " gives the same answer a different score when called again";
      out.evidence = tried_.changed();
      out.cause = "suspected: it draws random numbers, or remembers earlier calls";
      out.fix = "make it depend only on its arguments";
      out.cost = "noisy advantages, and runs that cannot be reproduced";
    } else if (tried_.call_seconds() > kSlow) {
      return judge_slow(std::move(out));
    }
    return out;
  }

  // Right or wrong, and of two equal answers only the one without line breaks is right, in every row.
  bool one_line_only() const {
    const Answered *const one = tried_.asked(kOneLine), *const several = tried_.asked(kSeveralLines);
    return one != nullptr && several != nullptr && tried_.values().size() == 2 && one->none == 0 &&
           several->none == 0 && one->mean == tried_.highest() && several->mean == tried_.lowest();
  }

  // A form that the template has begun already, so that no completion can have it whole (TRL#6966).
  bool wants_think_tag() const {
    return tried_.rows().opens_thinking() && tried_.highest() == 0 &&
           (tried_.is_user_code() || tried_.known().word.find("think") != std::string::npos);
  }

  // RL-04 of a reward that reads no column with a right answer.
  Verdict judge_without_gold(Verdict out, const std::string& shown) const {
    if (tried_.lowest() == tried_.highest()) {
      out.level = wants_think_tag() ? Level::kWarn : Level::kNote;
      out.what = tried_.name() + " gives every tested completion " + format::number(tried_.highest());
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
    out.what = tried_.name() + " gives the correct answer " + format::number(tried_.highest()) + " in " +
               (tried_.golds() == 1 ? "the one form that was"
                                    : "all " + std::to_string(tried_.golds()) + " forms that were") +
               " tested" + (tried_.calls().size() > tried_.golds() ? ", as to junk" : "");
    out.evidence =
        shown + (tried_.calls().size() > 1 ? ", then " + tried_.calls()[1].kind + " and other forms" : "");
    out.cause =
        "suspected: its pattern never matches (no DOTALL; a tag that the prompt's template already opened; "
        "another form of answer)";
    out.fix = "compare the string above with its pattern; hone reward-test shows more";
    out.cost = "a reward that does not change during the run";
    return out;
  }

  // RL-04, by answers that keep their text and get another row's gold.
  Verdict judge_sign() const {
    const auto count = static_cast<double>(tried_.gold_dependence().disagrees);
    Verdict out{.code = "RL-04", .level = Level::kWarn};
    out.what = tried_.name() + " has the wrong sign: right answers score lower than wrong ones";
    out.evidence =
        format::counted(tried_.gold_dependence().disagrees, "right answer") + " with a mean of " +
        format::number(tried_.gold_dependence().own / count) + ", the same texts as wrong answers " +
        format::number(tried_.gold_dependence().other / count) + "; " + tried_.gold_dependence().evidence;
    out.cause = "suspected: a sign that was turned, or a comparison that was negated: it reads the column " +
                tried_.column() + ", and gives less for agreeing with it";
    out.not_this = "a reward that ignores the answer: with the gold of another row its scores change";
    out.fix = "turn the sign, unless right answers are to be avoided; hone reward-test shows its scores";
    out.cost = "the run learns to avoid right answers";
    return out;
  }

  // Right answers without a score whose row has a gold: of another task's rows None is what TRL asks for.
  std::int64_t unreadable(const Answered& best) const {
    std::int64_t out = 0;
    for (std::size_t i = 0; i < std::min(best.values.size(), tried_.rows().size()); ++i) {
      const auto gold = format::column_text(tried_.rows().row(i).columns, tried_.column());
      out += std::isnan(best.values[i]) && gold && (tried_.values().empty() || !gold->empty());
    }
    return tried_.is_user_code() ? 0 : out;
  }

  // Rows of other tasks, as far as they were drawn.
  Verdict scores_no_row(Verdict out, bool only) const {
    out.level = only && tried_.seen_all() ? Level::kWarn : Level::kNote;
    out.what = tried_.name() + " scored none of the answers for " +
               format::counted(static_cast<std::int64_t>(tried_.rows().size()), "row");
    out.evidence = tried_.seen_all() ? "no row of the data has a score" : "of the rows that were drawn";
    out.cause = "the column " + tried_.column() + " is empty in these rows";
    out.fix = "fill in the column " + tried_.column();
    return out;
  }

  // Wrong answers that earn at least as much as the right one in its best form; null: none.
  const Answered* no_worse_wrong_one() const {
    for (const char* const kind : {"junk", "empty", "another row's gold"}) {
      const Answered* const one = tried_.asked(kind);
      if (one != nullptr && !(tried_.best().mean > one->mean)) return one;
    }
    return nullptr;
  }

  // RL-04 of a reward that pays wrong answers as much.
  Verdict pays_no_more(Verdict out, const Answered& than) const {
    const bool read = !tried_.is_user_code() || tried_.gold_dependence().on_column();
    out.level = Level::kWarn;
    out.what = tried_.name() + ": the right answer scores " + mean_of(tried_.best()) + ", no more than " +
               (than.kind == "empty" ? "an empty one" : than.kind) + " (" + mean_of(than) + ")";
    out.cause =
        read ? "suspected: something else weighs more in it than agreeing with the column " + tried_.column()
             : "the reward does not look at the column " + tried_.column() +
                   ": with the gold of another row its scores stay the same, in all " +
                   format::counted(static_cast<std::int64_t>(tried_.golds()), "form") + " of the answer";
    out.fix = "hone reward-test shows its scores answer by answer";
    out.cost = "the run learns something else";
    return out;
  }

  // RL-04
  Verdict judge_gold(bool only) const {
    Verdict out{.code = "RL-04"};
    const Answered& best = tried_.best();
    const auto count = static_cast<std::int64_t>(tried_.rows().size());
    out.what = tried_.name() + ": the right answer scores " + mean_of(best) + " (" + best.kind + ")";
    for (const Answered& one : tried_.calls()) {
      if (&one != &best) out.evidence += (out.evidence.empty() ? "" : ", ") + one.kind + " " + mean_of(one);
    }
    const std::string shown = "it received `" + format::shown(tried_.best_form().front()) + "`";
    const std::int64_t unread = unreadable(best);
    if (tried_.reads_gold() && static_cast<double>(unread) > kUnreadable * static_cast<double>(count)) {
      out.level = only && tried_.values().empty() && tried_.seen_all() ? Level::kFail : Level::kWarn;
      out.what = tried_.name() + " gives no score to " + std::to_string(unread) + " of " +
                 format::counted(count, "right answer");
      out.cause = "it cannot parse the column " + tried_.column();
      out.fix =
          "look at " + tried_.rows().row(0).where + ": `" +
          format::shown(format::column_text(tried_.rows().row(0).columns, tried_.column()).value_or("null")) +
          "`";
      out.cost = "samples without a reward";
      return out;
    }
    if (tried_.values().empty()) return scores_no_row(std::move(out), only);
    if (one_line_only()) {
      out.level = Level::kWarn;  // a model may well answer in one line
      out.what = tried_.name() + " matches an answer on one line, but not the same answer with line breaks";
      out.evidence = std::string(kOneLine) + " " + format::number(tried_.highest()) + ", " + kSeveralLines +
                     " " + format::number(tried_.lowest());
      out.cause = "a dot in the pattern that does not match a line break";
      out.fix = "regex(..., dotall=true), or re.DOTALL in your own function";
      out.cost = "a reward that stays at its minimum, since reasoning has several lines";
      return out;
    }
    if (!tried_.reads_gold()) return judge_without_gold(std::move(out), shown);
    if (auto whole = judge_whole_text(tried_.forms(), tried_.name(), tried_.column()))
      return *std::move(whole);
    const bool never = tried_.lowest() == tried_.highest();
    if (const Answered* const than = never ? nullptr : no_worse_wrong_one())
      return pays_no_more(std::move(out), *than);
    if (never && tried_.calls().size() == tried_.golds() && tried_.highest() > 0) {
      out.what = tried_.name() + " gives every tested correct answer " + format::number(tried_.highest());
      out.evidence = format::counted(static_cast<std::int64_t>(tried_.golds()), "form") +
                     " of it; there was no time for wrong answers";
      return out;
    }
    if (never) return never_pays(std::move(out), shown);
    if (unread > 0) {
      out.level = Level::kWarn;
      out.what += "; " + std::to_string(unread) + " of " + format::counted(count, "right answer") +
                  (unread == 1 ? " gets none" : " get none");
      out.cause = "it cannot parse some values of the column " + tried_.column();
      out.fix = "remove such rows from the data";
    }
    return out;
  }

  // RL-07
  Verdict judge_adversaries() const {
    Verdict out{.code = "RL-07"};
    const Answered& best = tried_.best();
    std::string table;
    for (const char* const kind :
         {"only format tags", "the prompt, copied", "gold five times", "gold and filler"}) {
      const Answered* const one = tried_.asked(kind);
      if (one == nullptr) continue;
      table += (table.empty() ? "" : ", ") + std::string(kind) + " " + mean_of(*one);
      const bool holds_gold = std::string_view(kind).starts_with("gold");
      const bool wins = holds_gold ? one->mean > best.mean : one->mean >= best.mean;
      if (!wins || tried_.lowest() == tried_.highest()) continue;
      out.level = Level::kWarn;
      out.what =
          tried_.name() + ": " + kind + " earns " + mean_of(*one) + ", the right answer " + mean_of(best);
    }
    out.evidence = table;
    if (out.level == Level::kOk) {
      out.what =
          tried_.name() + ": no degenerate answer scores as high as the correct one (" + mean_of(best) + ")";
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
    const Texts prompts = tried_.rows().prompts();
    std::size_t holding = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const std::string gold =
          format::column_text(tried_.rows().row(i).columns, tried_.column()).value_or("");
      holding += !gold.empty() && prompts[i].find(gold) != std::string::npos ? 1 : 0;
    }
    return 2 * holding > prompts.size();
  }

  // RL-06. That score.weight is there, [1, hidden], was looked at when the folder was opened.
  Verdict judge_model() const {
    Verdict out{.code = "RL-06"};
    out.what = tried_.name() + ": its head score.weight is in the file, one label";
    const Answered* const junk = tried_.asked("junk");
    if (tried_.column().empty() || junk == nullptr || tried_.calls().empty()) return out;
    std::size_t right = 0;
    const std::vector<double>& gold = tried_.best().values;
    for (std::size_t i = 0; i < std::min(gold.size(), junk->values.size()); ++i)
      right += gold[i] > junk->values[i] ? 1 : 0;
    const auto pairs = static_cast<double>(gold.size()), won = static_cast<double>(right);
    out.evidence = "correct answers above junk in " + std::to_string(right) + " of " +
                   format::counted(static_cast<std::int64_t>(gold.size()), "row");
    if (won >= kPairs * pairs) return out;
    out.level = Level::kWarn;
    out.what =
        tried_.name() + " tells correct answers from junk in " + format::percent(won, pairs) + " of the rows";
    out.cause =
        "suspected: its head was newly initialized when it was saved, or it was trained for something else";
    out.fix = "use a reward model that was trained on this kind of answer";
    out.cost = "a reward that rises while quality does not";
    return out;
  }

  const TriedReward& tried_;
};

}  // namespace

Verdicts judge_reward(const TriedReward& tried, bool only) {
  return RewardJudge(tried).verdicts(only);
}

}  // namespace hone::doctor
