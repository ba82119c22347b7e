// accuracy_reward and what is built on it, as trl.rewards has them with math_verify 0.9: is the answer of the
// completion the same mathematical object as the column's?
//
// The answer is what math_verify would take: \boxed{...} first, then LaTeX in $ $, $$ $$, \( \), \[ \] or a
// \frac of two numbers after "final answer is" and after "answer". A completion without one of these scores
// 0, "The answer is 42." and "#### 42" among them; lenient=true then takes the gold's own rules: any LaTeX,
// any plain number, the last one first. The gold may be text around LaTeX or around a number. If none is
// found in it, the score is None.
//
// Decided as math_verify decides (tests/fixtures/rewards/accuracy.json compares them):
//   integers, decimals, thousands separators (1,234  1{,}234  1 234), signs, percentages, currency signs,
//   units, a/b, \frac and its variants, mixed fractions, sums, products, powers, roots, factorials,
//   binomials, |x|, floors, \log, \ln, \exp, trigonometry, \pi, e, degrees, polynomials and quotients in
//   several variables, text (\text{Monday}), assignments (x = 5), equations, one-variable inequalities,
//   lists, sets, tuples, intervals and their unions, \pm, matrices by element (their sums, products,
//   determinants), \gcd, \lcm, \max and \min of numbers, sums and products over at most 1,000 whole
//   numbers, integrals between numbers. An exact number is compared exactly (up to 38
//   digits), anything with a decimal point after rounding to 6 places.
// Not decided, and then equal only when the normalized LaTeX is the same text: other sums and integrals,
// limits, derivatives, \begin{cases}, sets of numbers like \mathbb{Z}; no number is taken from inside, as
// math_verify takes 2 from \langle 1, 2 \rangle. A decimal inside a larger expression
// (\frac{12.0}{10}) is worth its exact value; sympy's is a double and may miss it. engine=math_verify asks
// TRL's own function in a Python worker.
//
// Limits: a text has the budget of math_answer.h, about half a second whatever its length. One that passes it
// has no answer: a gold scores None, a completion 0, as after math_verify's time-out. Two sets whose sizes
// multiply to more than 500,000 are equal only when they are written alike.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "rewards/pattern/native_rewards.h"

namespace hone::rewards {

struct AccuracyResult {
  std::optional<bool> correct;  // empty: the gold has no answer that can be read
  std::string gold;  // what was taken from each, for completions/; "[unparseable]" as TRL writes it
  std::string answer;
};

// How math_verify is called.
enum class AccuracyRules {
  kTrl,          // trl.rewards.accuracy_reward
  kOpenR1,       // open-r1's accuracy: the first match of each text counts, whether it can be read or not
  kOpenR1Latex,  // open-r1's cosine and length: the gold is LaTeX only, and the completion is taken for the gold
};
AccuracyResult judge_accuracy(const std::string& gold, const std::string& completion, bool lenient = false,
                              AccuracyRules rules = AccuracyRules::kTrl);

// The scores and the extra columns of accuracy_reward: 1, 0 or None.
Scores accuracy_scores(const Request& request, const std::string& name, const std::string& column,
                       AccuracyRules rules, bool lenient = false);

// GSM8K's "reasoning ... #### 42" as "42"; any other text as it is.
std::string after_hashes(const std::string& gold);

// accuracy_reward(column=solution, lenient=false): 1, 0 or None. Other columns than TRL's `solution` may be
// GSM8K's. reasoning_accuracy_reward(column=solution, reasoning_delimiters="</think>, </answer>"): the same of what
// follows the last delimiter, the first in the list that occurs; 0 without one. get_cosine_scaled_reward(max_len=..., min_value_wrong=-1, max_value_wrong=-0.5,
// min_value_correct=0.5, max_value_correct=1): the accuracy, scaled by a cosine of the number of tokens.
std::span<const BuiltInReward> math_rewards();

}  // namespace hone::rewards
