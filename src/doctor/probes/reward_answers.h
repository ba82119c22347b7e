// Answers of which it is known how good they are, for some rows of the run's own data, and what a reward says
// of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rewards/reward.h"
#include "train/open_run.h"
#include "train/rollout_source.h"

namespace hone::doctor {

using Texts = std::vector<std::string>;  // one a row
using NamedTexts = std::vector<std::pair<std::string, Texts>>;

// The forms of golds() that think without a line break and with some.
constexpr const char* kOneLine = "gold in \\boxed{} after <think> in one line";
constexpr const char* kSeveralLines = "gold in \\boxed{} after <think>";

// Rows spread over the run's prompts.
class RewardRows {
 public:
  RewardRows(const train::OpenedRun& run, std::size_t most);

  std::size_t size() const { return rows_.size(); }
  const data::PromptRow& row(std::size_t i) const { return run_.sampled().train_prompts.rows[rows_[i]]; }
  // The request that the run itself would make of these completions, one a row.
  rewards::Request request(const Texts& completions) const;
  bool has(const std::string& column) const;

  // The right answer in the forms that rewards look for; nothing where a row has none.
  NamedTexts gold_answers(const std::string& column) const;
  Texts prompts() const;  // the words of each prompt
  // The chat template ends a prompt within <think>: the model's completion begins after it.
  bool opens_thinking() const { return opens_thinking_; }

 private:
  const train::OpenedRun& run_;
  std::vector<std::size_t> rows_;
  bool opens_thinking_ = false;
};

// What came of one call.
struct Answered {
  std::string kind;                   // "gold in \boxed{}"
  std::vector<double> values;         // NaN: None
  double mean = rewards::kNone;       // of what was scored
  std::int64_t none = 0;              // failures included
  std::vector<std::string> failures;  // "row, kind: what"
  std::string error;                  // what the call threw as a UserError; nothing else is then filled
  double seconds = 0;
};

// transformers' TrainerState as before the first step.
base::Json first_state(const train::OpenedRun& run);

Answered ask(rewards::Reward& reward, const RewardRows& rows, const std::string& kind,
             const Texts& completions);

}  // namespace hone::doctor
