// Are two mathematical objects the same? The rules of math_verify 0.9 (grader.py, strict, 6 places, 15
// digits).
//
// Where sympy works with symbols, hone evaluates: exact fractions where all is rational, else complex long
// doubles, and for expressions with variables at several points. Not symmetric: a gold "x = 5" takes the
// answer 5, but the equation 2x = 10 does not.
#pragma once

#include "rewards/math/value.h"

namespace hone::rewards {

bool same_math(const MathPtr& gold, const MathPtr& answer);

bool only_symbols(const MathPtr& one);  // x, A/S: what can stand left of an assignment
// An interval as it was written; (3, 1), which holds nothing, is a tuple.
MathPtr make_interval(const MathPtr& left, const MathPtr& right, bool left_open, bool right_open);

}  // namespace hone::rewards
