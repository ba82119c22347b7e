// From a text to the answer in it, by the rules of math_verify 0.9 (parser.py) and the normalization of
// latex2sympy2_extended 1.11 (math_normalization.py), as trl.rewards calls them.
#pragma once

#include <string>
#include <vector>

#include "rewards/math/value.h"

namespace hone::rewards {

// One way to read the answer: as an object, or (value empty) as text, which equals the same text only.
struct MathCandidate {
  MathPtr value;
  std::u32string text;
  bool is_undecided = false;  // LaTeX that hone does not work out: nothing in it or beside it is the answer
};

enum class AnswerRules {
  kGold,        // any LaTeX, then any plain number or expression; broken LaTeX is fixed
  kCompletion,  // \boxed first; other LaTeX only after "answer"; LaTeX as it is
  // As open-r1 calls math_verify: extraction_mode "first_match" everywhere.
  kFirstGold,        // kGold, but only the first match of the best rule is read
  kFirstLatexGold,   // the same of LaTeX only: a plain "42" has no answer
  kFirstCompletion,  // kCompletion, and of a chain a = b = c only what follows the last "="
};

// Bounds what one text may cost, whatever its length: about half a second.
struct MathBudget {
  long steps = 20'000'000;  // of all its patterns together (base::Pattern)
  long attempts = 300'000;  // of the parser's rules; one expression has 100,000 at most
};
struct MathTimeOut {};

// At most two: the object, then its text. Empty: no answer. A text that costs more than MathBudget has none,
// as one that math_verify's time-out ends. An expression that passes another limit (100,000 attempts, rules
// 300 deep, a tree kMaxMathHeight high) is its text only, as one on which sympy's parser fails.
std::vector<MathCandidate> math_answers(const std::u32string& text, AnswerRules rules);

enum class Boxed { kAll, kLast };
// `repair`: \frac12, \sqrt3 and their like are completed, and .5 gets its 0.
std::u32string normalize_latex(std::u32string text, Boxed boxed, bool repair, long& steps);

MathPtr parse_latex(const std::u32string& text, MathBudget& budget);  // empty when it is not understood
bool is_undecided_latex(const std::u32string& text);                  // of a text that was not understood
MathPtr parse_plain_expression(const std::u32string& text);           // 1/2, (3+4)*2

bool same_answer(const MathCandidate& gold, const MathCandidate& answer);

}  // namespace hone::rewards
