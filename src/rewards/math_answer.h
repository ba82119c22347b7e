// From a text to the answer in it, by the rules of math_verify 0.9 (parser.py) and the normalisation of
// latex2sympy2_extended 1.11 (math_normalization.py), as trl.rewards calls them.
#pragma once

#include <string>
#include <vector>

#include "rewards/math_value.h"

namespace hone::rewards {

// One way to read the answer: as an object, or (value empty) as text, which equals the same text only.
struct MathCandidate {
  MathPtr value;
  std::u32string text;
};

enum class AnswerRules {
  kGold,       // any LaTeX, then any plain number or expression; broken LaTeX is mended
  kCompletion  // \boxed first; other LaTeX only after "answer"; LaTeX as it is
};

// At most two: the object, then its text. Empty: no answer. A text that takes too long has none.
std::vector<MathCandidate> math_answers(const std::u32string& text, AnswerRules rules);

enum class Boxed { kAll, kLast };
// `mend`: \frac12, \sqrt3 and their like are completed, and .5 gets its 0.
std::u32string normalise_latex(std::u32string text, Boxed boxed, bool mend);

MathPtr parse_latex(const std::u32string& text);             // empty when it is not understood
MathPtr parse_plain_expression(const std::u32string& text);  // 1/2, (3+4)*2

bool same_answer(const MathCandidate& gold, const MathCandidate& answer);

}  // namespace hone::rewards
