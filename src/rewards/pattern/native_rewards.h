// The rewards that need neither Python nor a model. Metric names are the __name__ of TRL's functions.
//
// A model writes what they read, so none may take long or much memory, whatever the text: think_format,
// soft_overlong_punishment, exact_match and length are linear in its length, repetition_penalty is but for a
// sort, regex has the limits of base/pattern.h for each text (then the sample is a failure), and those with
// an answer (accuracy_reward.h) the budget of math_answer.h (then it is an answer that cannot be read).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rewards/reward.h"
#include "rewards/reward_spec.h"

namespace hone::rewards {

// The text of a completion: itself, or the content of its first message. UserError for anything else.
std::string completion_text(const base::Json& completion, std::string_view reward);
std::vector<std::string> completion_texts(const Request& request, std::string_view reward);

// The values of a column as text (numbers as JSON writes them; null: no value). UserError when the data lack
// it.
std::vector<std::optional<std::string>> column_texts(const Request& request, const std::string& column,
                                                     std::string_view reward);

// A reward from a function of the request.
std::unique_ptr<Reward> make_reward(std::string name, std::function<Scores(const Request&)> function);

// think_format_reward: 1 when the text begins with <think>, holds no other <think>, and a </think> after it;
// else 0.
std::unique_ptr<Reward> think_format_reward(Parameters parameters);
// get_soft_overlong_punishment(max_completion_len=1280, soft_punish_cache=256): 0 up to max - cache tokens,
// then down in a straight line to -1 at max, -1 above it.
std::unique_ptr<Reward> soft_overlong_punishment(Parameters parameters);
// get_repetition_penalty_reward(ngram_size=3, max_penalty=-1): max_penalty times the share of repeated token
// n-grams.
std::unique_ptr<Reward> repetition_penalty_reward(Parameters parameters);

// exact_match(column=answer, ignore_case=false): 1 when the completion is the column's text, white space at
// both ends set aside. None where the column is null.
std::unique_ptr<Reward> exact_match(Parameters parameters);
// regex(pattern="...", ignore_case=false, multiline=false, dotall=false): 1 when the pattern is found
// anywhere. With column=answer: 1 when the last match's group 1 (or whole match) is the column's text, white
// space set aside.
std::unique_ptr<Reward> regex(Parameters parameters);
// length(target=100, unit=tokens|characters): 0 at the target, down in a straight line to -1 for nothing at
// all and for twice the target or more.
std::unique_ptr<Reward> length(Parameters parameters);

}  // namespace hone::rewards
