// The rewards that need neither Python nor a model. Metric names are the __name__ of TRL's functions.
//
// A model writes what they read, so none may take long or much memory, whatever the text: think_format,
// soft_overlong_punishment, exact_match and length are linear in its length, repetition_penalty is but for a
// sort, regex has the limits of base/strings/pattern.h for each text (then the sample is a failure), and those with
// an answer (accuracy_reward.h) the budget of math_answer.h (then it is an answer that cannot be read).
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rewards/reward.h"
#include "rewards/reward_spec.h"

namespace hone::rewards {

struct OpenOptions;  // open_reward.h

// The text of a completion: itself, or the content of its first message. UserError for anything else.
std::string completion_text(const base::Json& completion, std::string_view reward);
std::vector<std::string> completion_texts(const Request& request, std::string_view reward);

// The values of a column as text (numbers as JSON writes them; null: no value). UserError when the data lack
// it.
std::vector<std::optional<std::string>> column_texts(const Request& request, const std::string& column,
                                                     std::string_view reward);

// A reward from a function of the request.
std::unique_ptr<Reward> make_reward(std::string name, std::function<Scores(const Request&)> function);

// A reward that `reward_funcs` names without a file.
struct BuiltInReward {
  std::string_view name;
  std::unique_ptr<Reward> (*make)(Parameters);
  std::string_view column = {};   // which it reads unless column= names another; empty: none
  std::string_view python = {};   // the same in TRL, for engine=math_verify; empty: there is none
  std::string_view instead = {};  // with this parameter it reads no column
  // In place of `make`, for one that has processes of its own.
  std::unique_ptr<Reward> (*open)(Parameters, const OpenOptions&) = nullptr;
};

// How many of the n-grams stood before already.
std::size_t repeated_ngrams(const std::vector<std::int32_t>& ids, std::size_t n);
// Equation 13 of DAPO's paper, arXiv 2503.14476: 0 up to most - cache tokens, then linearly down to -1 at `most`.
Scores overlong_scores(const Request& request, const std::string& name, double most, double cache);
// length(target=100, unit=tokens|characters)
std::unique_ptr<Reward> length_by_target(Parameters parameters);

// think_format_reward, get_soft_overlong_punishment(max_completion_len=1280, soft_punish_cache=256),
// get_repetition_penalty_reward(ngram_size=3, max_penalty=-1), exact_match(column=answer, ignore_case=false),
// regex(pattern="...", column=, ignore_case=false, multiline=false, dotall=false). To add one: its function
// and its row in native_rewards.cpp.
std::span<const BuiltInReward> native_rewards();

}  // namespace hone::rewards
