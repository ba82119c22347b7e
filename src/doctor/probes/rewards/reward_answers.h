// Answers of known quality for some rows of the run's data, and their scores from a reward.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rewards/reward.h"
#include "train/batches/rollout_source.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

using Texts = std::vector<std::string>;  // one a row
using NamedTexts = std::vector<std::pair<std::string, Texts>>;

// The forms of golds() whose reasoning has no line break, and several.
constexpr const char* kOneLine = "gold in \\boxed{} after <think> in one line";
constexpr const char* kSeveralLines = "gold in \\boxed{} after <think>";
// The column's text with its reasoning, where the answer alone is another text (after ####).
constexpr const char* kWhole = "gold as the column has it";
// For test cases the form is a program that has their outputs; one that finds them may be much shorter.
constexpr const char* kGoldProgram = "a program that has the outputs of the tests";

// How a call differs from the plain one: all rows in their order, each with its own columns.
struct RewardCall {
  std::vector<std::size_t> order;  // places of the rows, each at most once; empty: all
  std::string rotated_column;  // each row gets another value of this column, the next row's; empty: its own
};

// Rows drawn from prompts of the run (drawn_rows.h), which must outlive this.
class RewardRows {
 public:
  RewardRows(const train::RunView& run, const train::PolicyPrompts& prompts, std::size_t most);
  // Others of the same prompts, by their places.
  RewardRows(const RewardRows& as, std::vector<std::size_t> places);

  std::size_t size() const { return rows_.size(); }
  const train::PolicyPrompts& prompts_of_run() const { return prompts_; }
  std::size_t place(std::size_t i) const { return rows_[i]; }  // in the run's prompts
  const data::PromptRow& row(std::size_t i) const { return prompts_.rows[rows_[i]]; }
  // The request that the run would make for these completions, one per row.
  rewards::Request request(const Texts& completions, const RewardCall& call = {}) const;
  bool has(const std::string& column) const;

  // The correct answer in the forms that rewards accept; empty when a row has none.
  NamedTexts gold_answers(const std::string& column) const;
  Texts prompts() const;                               // the text of each prompt
  std::int64_t tokens(const std::string& text) const;  // without special ones
  // The chat template ends a prompt within <think>: the model's completion starts after it.
  bool opens_thinking() const { return opens_thinking_; }

 private:
  std::optional<NamedTexts> gold_programs(const std::string& column) const;
  // The next row with another value of the column; `i` itself where there is none.
  std::size_t next_other(std::size_t i, const std::string& column) const;
  std::vector<std::int32_t> ids_of(const std::string& text) const;

  const train::RunView run_;
  const train::PolicyPrompts& prompts_;
  std::vector<std::size_t> rows_;
  bool opens_thinking_ = false;
};

// The result of one call.
struct Answered {
  std::string kind;                   // "gold in \boxed{}"
  std::vector<double> values;         // NaN: None
  double mean = rewards::kNone;       // over scored answers
  std::int64_t none = 0;              // failures included
  std::vector<std::string> failures;  // "row, kind: what"
  std::string error;                  // of the whole call; then no other field but the next is set
  bool every_call = false;  // the error is one of any call: a missing column, a worker that cannot start
  double seconds = 0;
};

// `mean` and `none` of its values.
void set_mean(Answered& one);

// transformers' TrainerState as before the first step.
base::Json first_state(const train::RunView& run);

// Values are in the call's order.
Answered ask(rewards::Reward& reward, const RewardRows& rows, const std::string& kind,
             const Texts& completions, const RewardCall& call = {});

}  // namespace hone::doctor
