// Sums and products over whole numbers, integrals between numbers, the greatest common divisor and its kin: what math_verify
// works out by sympy's doit().
#pragma once

#include <string>
#include <vector>

#include "rewards/math/value.h"

namespace hone::rewards {

// Each of these takes what it costs from `work` and is empty for what it does not decide.

// The terms (kAdd) or factors (kMultiply) of `body` for `name` = first, first + 1, ..., last; at most 1,000.
MathPtr terms_of(Math::Kind kind, const MathPtr& body, const std::string& name, const MathPtr& first,
                 const MathPtr& last, long& work);

// A function "integral" of body, `name` and both limits, which evaluate() works out by Gauss-Legendre quadrature. Empty also
// where that does not converge to 15 digits, or where a limit is infinite.
MathPtr definite_integral(const MathPtr& body, const std::string& name, const MathPtr& low,
                          const MathPtr& high, long& work);
// The same of an integrand that holds its differential, a symbol "dx": it stands for 1.
MathPtr definite_integral_of_quotient(const MathPtr& body, const MathPtr& low, const MathPtr& high,
                                      long& work);

// gcd and lcm of whole numbers, max and min of real numbers.
MathPtr one_of_several(const std::string& name, const std::vector<MathPtr>& all);

}  // namespace hone::rewards
