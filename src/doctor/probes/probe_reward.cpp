// Probe P8 (docs/design.md): rewards tried on answers whose quality is known, right ones from a column of the data
// that holds them, and junk; and by experiment what a score depends on. Before a run for at most ten seconds in all,
// unless probe_rewards is false. A user's function that can be gamed is a failure with `--deep`, and a warning
// before a run: it does what it says.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "doctor/checks/check_format.h"
#include "doctor/examination.h"
#include "doctor/probes/reward_answers.h"
#include "doctor/probes/reward_dependence.h"
#include "rewards/open_reward.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr std::size_t kQuickRows = 8, kDeepRows = 16;
constexpr double kPatience = 10;     // seconds of all rewards together, before a run
constexpr std::size_t kVaried = 5;   // kinds of answers, before all scores are called the same
constexpr double kSlow = 1;          // seconds a call
constexpr double kUnreadable = 0.5;  // share of golds
constexpr double kPairs = 0.7;       // a reward model's right answers (RL-06)
constexpr const char* kJunk = "lorem ipsum qx zzyx blah blah, und so weiter";
// What a template has opened in the prompt, no completion begins with.
constexpr const char* kTagsAfterThink = "\n</think>\n<answer>\n</answer>\n\\boxed{}\n#### ";
constexpr const char* kTags = "<think>\n</think>\n<answer>\n</answer>\n\\boxed{}\n#### ";

Texts same(std::size_t rows, const std::string& text) {
  return Texts(rows, text);
}

std::string mean_of(const Answered& one) {
  return std::isnan(one.mean) ? "no score" : format::number(one.mean);
}

// One reward.
class Trial {
 public:
  Trial(rewards::Reward& reward, const std::string& word, std::vector<std::string> needed,
        const RewardRows& rows, Depth depth, double patience, std::int64_t most_tokens)
      : reward_(reward),
        word_(word),
        needed_(std::move(needed)),
        rows_(rows),
        deep_(depth == Depth::kDeep),
        patience_(patience),
        most_tokens_(most_tokens),
        user_code_(rewards::is_user_code(word)),
        model_(rewards::is_model(word)) {}

  // `any_gold`: the column that the data call the answer; "" when there is none.
  void run(const std::string& any_gold) {
    column_ = gold_of(any_gold);
    if (!column_.empty()) {
      for (const auto& [kind, texts] : rows_.gold_answers(column_)) {
        if (!calls_.empty() && late()) break;  // a slow one has been asked enough
        if (!ask_more(kind, texts)) return;
        if (calls_.size() == 1 || calls_.back().mean > calls_[best_].mean || std::isnan(calls_[best_].mean)) {
          best_ = calls_.size() - 1;
          best_texts_ = texts;
        }
      }
      golds_ = calls_.size();
    }
    for (const auto& [kind, texts] : other_answers()) {
      if (!calls_.empty() && late()) return;
      if (!ask_more(kind, texts)) return;
    }
    repeat();
    if (user_code_ && changed_.empty() && !late()) depend();
    if (reads_gold()) ask_adversaries();
  }

  double seconds() const { return seconds_; }
  // It gave every answer one score, and this one; of at least kVaried kinds.
  bool constant() const { return calls_.size() >= kVaried && lowest_ == highest_; }
  // ... None.
  bool scores_none() const {
    return !calls_.empty() && values_.empty() && failures_.empty() && error_.empty();
  }

  // `only`: the run has no other reward, or none of them says more.
  Verdicts verdicts(bool only) const {
    Verdicts out = {judge_calls(only)};
    if (model_) out.push_back(judge_model());
    if (calls_.empty() || out[0].level == Level::kFail) return out;
    if (user_code_ && constant() && highest_ > 0) {
      out.push_back(judge_constant(only));
      return out;
    }
    if (dependence_.on_others || dependence_.on_order) {  // then one call's scores say nothing of another's
      append_verdicts(out, judge_dependence(dependence_, name()));
      return out;
    }
    if (!column_.empty()) out.push_back(judge_gold());
    if (reads_gold() && asked("only format tags") != nullptr) out.push_back(judge_adversaries());
    return out;
  }

 private:
  static void append_verdicts(Verdicts& out, Verdicts more) {
    for (Verdict& one : more) out.push_back(std::move(one));
  }
  bool late() const { return !deep_ && seconds_ >= patience_; }
  bool reads_gold() const { return !column_.empty() && (!needed_.empty() || dependence_.on_column); }

  // Wrong for any row, the most usual one first: a function may raise for an empty completion, and be right.
  NamedTexts other_answers() const {
    constexpr std::int64_t kMostWords = 512, kWordsOfJunk = 9;
    std::string longer;
    const std::int64_t words = std::min(kMostWords, most_tokens_);
    for (std::int64_t i = 0; i < words; i += kWordsOfJunk) longer += std::string(kJunk) + " ";
    return {{"the prompt, copied", rows_.prompts()},
            {"junk", same(rows_.size(), kJunk)},
            {"long junk", same(rows_.size(), longer)},
            {"only format tags", same(rows_.size(), rows_.opens_thinking() ? kTagsAfterThink : kTags)},
            {"empty", same(rows_.size(), "")}};
  }

  // What the scores depend on, with the gold that scores best, or with each row's own prompt as its answer.
  void depend() {
    const bool golds = golds_ > 0;
    const Texts texts = golds ? best_texts_ : rows_.prompts();
    const Answered first = golds ? calls_[best_] : ask(reward_, rows_, "the prompt, copied", texts);
    dependence_ = test_dependence(reward_, rows_, texts, first, golds ? column_ : "");
    seconds_ += 3 * first.seconds;
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
  }

  // RL-02 before anything is sampled.
  Verdict judge_constant(bool only) const {
    Verdict out{.code = "RL-02", .level = only ? Level::kFail : Level::kNote};
    out.what =
        name() + " gives every answer " + format::number(highest_) + ": right ones, empty ones and junk";
    out.evidence =
        format::counted(static_cast<std::int64_t>(calls_.size()), "kind of answers", "kinds of answers") +
        " for " + format::counted(static_cast<std::int64_t>(rows_.size()), "row") + ", each " +
        format::number(highest_);
    out.cause = "the function does not look at the completions";
    out.not_this = "a pattern that never matches: that would give a lowest score, 0 or less";
    out.fix = "let it return a score for each completion; hone reward-test shows its scores answer by answer";
    out.cost = only ? "every group has equal rewards, so that every advantage and every gradient is 0"
                    : "it adds the same to every sample of a group, which changes no advantage";
    return out;
  }
  std::string name() const { return "reward " + reward_.name(); }

  std::string gold_of(const std::string& any_gold) const {
    if (std::find(needed_.begin(), needed_.end(), any_gold) != needed_.end()) return any_gold;
    // Of ours the column that it names is the answer; of the user's any other may be test cases, or whatever.
    if (!user_code_ && !needed_.empty() && rows_.has(needed_.front())) return needed_.front();
    return any_gold;
  }

  // False: that is enough, something is wrong.
  bool ask_more(const std::string& kind, const Texts& texts) {
    Answered one = ask(reward_, rows_, kind, texts);
    error_ = one.error.empty() ? "" : kind + ": " + one.error;
    seconds_ += one.seconds;
    for (const double value : one.values) {
      if (std::isnan(value)) continue;
      lowest_ = std::min(lowest_, value);
      highest_ = std::max(highest_, value);
      if (values_.size() < 3) values_.insert(value);
    }
    failures_.insert(failures_.end(), one.failures.begin(), one.failures.end());
    calls_.push_back(std::move(one));
    asked_.push_back(texts);
    return error_.empty() && (!fails_often() || !user_code_);
  }

  // A row now and then costs its completions, and no more than that.
  bool fails_often() const {
    return !failures_.empty() && 2 * failures_.size() >= calls_.size() * rows_.size();
  }

  // The first call again.
  void repeat() {
    const Answered again = ask(reward_, rows_, calls_.front().kind, asked_.front());
    for (std::size_t i = 0; i < again.values.size() && i < calls_.front().values.size(); ++i) {
      const double first = calls_.front().values[i], second = again.values[i];
      if (first != second && !(std::isnan(first) && std::isnan(second)))
        changed_ = format::number(first) + ", then " + format::number(second) + " (" + rows_.row(i).where +
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
      out.level = values_.empty() ? Level::kFail : Level::kWarn;  // it has scored others
      out.what = name() + " cannot score a batch";
      out.evidence = error_;
      out.cause = "the function itself";
      out.fix = "fix it, then test it with hone reward-test";
      out.cost = values_.empty() ? "the run ends at its first rewards" : "samples without a reward";
      return out;
    }
    if (!failures_.empty()) {
      out.level = fails_often() ? Level::kFail : Level::kWarn;
      out.what = name() + " does not score " +
                 format::counted(static_cast<std::int64_t>(failures_.size()), "answer") + " of " +
                 std::to_string(calls_.size() * rows_.size());
      out.evidence = failures_.front();
      for (std::size_t i = 1; i < std::min<std::size_t>(3, failures_.size()); ++i)
        out.evidence += "; " + failures_[i];
      out.cause = "an exception, a time-out, NaN or infinity for these answers";
      out.fix = "return a finite number, or None for a sample that is not to be scored";
      out.cost = "samples without a reward in every batch with such an answer";
      return out;
    }
    if (user_code_ && scores_none()) {  // of a built-in one the data are the cause, which judge_gold() names
      out.level = only ? Level::kFail : Level::kWarn;
      out.what = name() + " gives None to every answer, right ones too";
      out.evidence =
          format::counted(static_cast<std::int64_t>(calls_.size()), "kind of answers", "kinds of answers") +
          " for " + format::counted(static_cast<std::int64_t>(rows_.size()), "row");
      out.cause = "it returns None for each sample: suspected, a branch that never returns a number";
      out.not_this = "an exception or a time-out: the calls returned";
      out.fix = "return a finite number for the samples that it is to score";
      out.cost = only ? "no sample has a reward, so that nothing is learned" : "this reward does not count";
      return out;
    }
    out.what = name() + ": " + format::counted(static_cast<std::int64_t>(rows_.size()), "finite number") +
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
                 format::counted(static_cast<std::int64_t>(rows_.size()), "answer");
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
    return rows_.opens_thinking() && highest_ == 0 &&
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

  // RL-04
  Verdict judge_gold() const {
    Verdict out{.code = "RL-04"};
    const Answered& best = calls_[best_];
    const auto rows = static_cast<std::int64_t>(rows_.size());
    out.what = name() + ": the right answer scores " + mean_of(best) + " (" + best.kind + ")";
    for (const Answered& one : calls_) {
      if (&one != &best) out.evidence += (out.evidence.empty() ? "" : ", ") + one.kind + " " + mean_of(one);
    }
    const std::string shown = "it received `" + format::shown(asked_[best_].front()) + "`";
    if (reads_gold() && static_cast<double>(best.none) > kUnreadable * static_cast<double>(rows)) {
      out.level = Level::kFail;
      out.what = name() + " gives no score to " + std::to_string(best.none) + " of " +
                 format::counted(rows, "right answer");
      out.cause = "it cannot parse the column " + column_;
      out.fix = "look at " + rows_.row(0).where + ": `" +
                format::shown(format::column_text(rows_.row(0).columns, column_).value_or("null")) + "`";
      out.cost = "samples without a reward";
      return out;
    }
    if (one_line_only()) {
      out.level = Level::kFail;
      out.what = name() + " matches an answer on one line, but not the same answer with line breaks";
      out.evidence = std::string(kOneLine) + " " + format::number(highest_) + ", " + kSeveralLines + " " +
                     format::number(lowest_);
      out.cause = "a dot in the pattern that does not match a line break";
      out.fix = "regex(..., dotall=true), or re.DOTALL in your own function";
      out.cost = "a reward that stays at its minimum, since reasoning has several lines";
      return out;
    }
    if (!reads_gold()) return judge_without_gold(std::move(out), shown);
    const Answered *const junk = asked("junk"), *const empty = asked("empty"),
                          *const other = asked("another row's gold");
    const auto no_better = [&](const Answered* than) { return than != nullptr && !(best.mean > than->mean); };
    const bool never = lowest_ == highest_;
    if (!never && (no_better(junk) || no_better(empty) || no_better(other))) {
      const Answered& than = no_better(junk) ? *junk : no_better(empty) ? *empty : *other;
      const bool read = !user_code_ || dependence_.on_column;
      out.level = read || deep_ ? Level::kFail : Level::kWarn;
      out.what = name() + ": the right answer scores " + mean_of(best) + ", no more than " +
                 (than.kind == "empty" ? "an empty one" : than.kind) + " (" + mean_of(than) + ")";
      out.cause = read ? "the reward has the wrong sign: it reads the column " + column_ +
                             ", and gives less for agreeing with it"
                       : "the reward does not look at the column " + column_ +
                             ": with the gold of another row its scores stay the same";
      if (read)
        out.not_this = "a reward that ignores the answer: with the gold of another row its scores change";
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
    if (best.none > 0) {
      out.level = Level::kWarn;
      out.what += "; " + std::to_string(best.none) + " of " + format::counted(rows, "right answer") +
                  (best.none == 1 ? " gets none" : " get none");
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
      if (!wins || out.level == Level::kFail || lowest_ == highest_) continue;
      // A prompt may hold its answer.
      const bool prompt = std::string_view(kind) == "the prompt, copied";
      out.level = prompt || (user_code_ && !deep_) ? Level::kWarn : Level::kFail;
      out.what = name() + ": " + kind + " earns " + mean_of(*one) + ", the right answer " + mean_of(best);
    }
    out.evidence = table;
    if (out.level == Level::kOk) {
      out.what = name() + ": no degenerate answer scores as high as the correct one (" + mean_of(best) + ")";
      return out;
    }
    out.cause = "the reward can be maximal without an answer";
    out.fix = "give other rewards only to correct answers, and count an answer once";
    out.cost = "a rising reward while answers get worse";
    return out;
  }

  // RL-06. That score.weight is there, [1, hidden], was looked at when the folder was opened.
  Verdict judge_model() const {
    Verdict out{.code = "RL-06"};
    out.what = name() + ": its head score.weight is in the file, one label";
    const Answered* const junk = asked("junk");
    if (column_.empty() || junk == nullptr || calls_.empty()) return out;
    std::size_t right = 0;
    const std::vector<double>& gold = calls_[best_].values;
    for (std::size_t i = 0; i < gold.size(); ++i) right += gold[i] > junk->values[i] ? 1 : 0;
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
  const RewardRows& rows_;
  bool deep_;
  double patience_;
  std::int64_t most_tokens_;
  bool user_code_, model_;
  RewardDependence dependence_;
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
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < data.rewards.size(); ++i) {
    trials.emplace_back(*data.rewards[i], run.plan.policy.reward_funcs[i],
                        i < data.columns.size() ? data.columns[i] : std::vector<std::string>(), rows, depth,
                        left, run.plan.policy.max_completion_length);
    trials.back().run(gold);
    left = std::max(0.0, left - trials.back().seconds());
  }
  const bool silent = std::all_of(trials.begin(), trials.end(),
                                  [](const Trial& one) { return one.constant() || one.scores_none(); });
  Verdicts out;
  for (const Trial& trial : trials) {
    for (Verdict& one : trial.verdicts(silent)) out.push_back(std::move(one));
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
    Trial trial(*sampler.rewards()[i], word, sampler.columns()[i], rows, depth, left,
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
