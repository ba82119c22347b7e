// One reward on answers of known quality: it is asked, and what it gave is kept for the verdicts
// (judge_reward.h).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "doctor/examination.h"
#include "doctor/probes/rewards/reward_answers.h"
#include "doctor/probes/rewards/reward_attacks.h"
#include "doctor/probes/rewards/reward_dependence.h"
#include "doctor/probes/rewards/reward_forms.h"
#include "rewards/reward.h"

namespace hone::doctor {

constexpr const char* kAsWholeNumber =
    "gold as a whole number";  // a kind of answers, beside reward_answers.h's

// What is known of a reward before it is asked.
struct AskedReward {
  std::string word;                 // as reward_funcs has it
  std::vector<std::string> needed;  // columns that it wants by name
  Depth depth = Depth::kRun;
  double patience = 0;           // seconds for all calls of kRun, the first one aside
  std::int64_t most_tokens = 0;  // of a completion
};

class TriedReward {
 public:
  // The reward and the rows must outlive this.
  TriedReward(rewards::Reward& reward, AskedReward asked, const RewardRows& rows);

  // Asks it all kinds of answers. `any_gold`: the column that the data call the answer; "" when there is none.
  // Where the drawn rows tell nothing, rows of the data that do are looked for and asked.
  void run(const std::string& any_gold);

  std::string name() const { return "reward " + reward_.name(); }
  const rewards::Reward& reward() const { return reward_; }
  const AskedReward& known() const { return known_; }
  bool is_user_code() const { return user_code_; }
  bool is_model() const { return model_; }
  const RewardRows& rows() const { return *rows_; }
  // It was asked other rows than the drawn ones: those that it scores, where the drawn ones are of other tasks.
  bool asked_own_rows() const { return own_rows_ != nullptr; }
  const std::string& column() const { return column_; }  // of right answers; "" when there is none

  // The scores of all kinds are those of one call, of the first rows: apart, every kind had the same.
  bool asked_together() const { return together_; }

  // The calls in the order of asking, one for each kind of answers; the first golds() are forms of the right
  // answer, of which best() scored highest.
  const std::vector<Answered>& calls() const { return calls_; }
  const std::vector<Texts>& texts() const { return asked_; }  // of the same calls
  std::size_t golds() const { return golds_; }
  const Answered& best() const { return calls_[best_]; }
  const Texts& best_form() const { return asked_[best_]; }
  const Answered* asked(const std::string& kind) const;  // null: it was not
  AskedForms forms() const {
    return {.calls = calls_, .texts = asked_, .golds = golds_, .lowest = lowest_, .highest = highest_};
  }

  double lowest() const { return lowest_; }  // finite scores of all calls; infinity when there is none
  double highest() const { return highest_; }
  const std::set<double>& values() const { return values_; }  // the first three different ones
  const std::vector<std::string>& failures() const { return failures_; }
  const std::string& error() const { return error_; }      // of a call; "" when there was none
  const std::string& changed() const { return changed_; }  // a score that another call repeated otherwise
  double seconds() const { return seconds_; }
  double call_seconds() const { return call_seconds_; }  // of a call that was repeated
  const RewardDependence& dependence() const { return dependence_; }
  const GoldDependence& gold_dependence() const { return gold_; }
  // Tells what blind policies and wrong answers earn; not among calls(). There are none where the reward reads no gold.
  const RewardAttacks& attacks() const { return attacks_; }
  // Every row of the data was asked, and none of them told anything.
  bool seen_all() const { return seen_all_; }
  // An error that any call ends in.
  bool fails_every_call() const { return of_every_call_; }

  // It gave every answer one score, of several kinds.
  bool constant() const;
  // ... a score of its row's, whatever the answer.
  bool same_in_each_row() const;
  // ... None.
  bool scores_none() const {
    return !calls_.empty() && values_.empty() && failures_.empty() && error_.empty();
  }
  // It asks for the column of right answers by name, or its scores depend on it; a column like `task` is
  // another matter.
  bool reads_gold() const;

 private:
  bool late() const { return known_.depth != Depth::kDeep && seconds_ >= known_.patience; }
  std::string gold_of(const std::string& any_gold) const;
  void ask_all();
  bool word_is_url() const { return known_.word.starts_with("http"); }
  bool ask_more(const std::string& kind, const Texts& texts);
  void add_values(const Answered& one);
  void repeat();
  void ask_in_one_call();
  void depend();
  void ask_adversaries();
  void forget();
  bool can_ask_widely() const;
  std::int64_t rows_without_score() const;
  double telling_seconds() const;
  std::vector<std::size_t> telling_rows();
  NamedTexts all_answers(const RewardRows& rows) const;
  NamedTexts telling_answers(const RewardRows& rows) const;
  NamedTexts other_answers(const RewardRows& rows) const;

  rewards::Reward& reward_;
  AskedReward known_;
  const RewardRows* rows_;
  std::unique_ptr<RewardRows> own_rows_;
  bool user_code_, model_;
  RewardDependence dependence_;
  GoldDependence gold_;
  RewardAttacks attacks_;
  bool seen_all_ = false, of_every_call_ = false, together_ = false;
  std::string column_;
  std::vector<Answered> calls_;
  std::vector<Texts> asked_;
  std::size_t best_ = 0, golds_ = 0;
  std::vector<std::string> failures_;
  std::string error_, changed_;
  double seconds_ = 0, call_seconds_ = 0;
  std::set<double> values_;
  double lowest_ = std::numeric_limits<double>::infinity(),
         highest_ = -std::numeric_limits<double>::infinity();
};

}  // namespace hone::doctor
