// The number that a mathematical object stands for.
#pragma once

#include <complex>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "rewards/math/value.h"

namespace hone::rewards {

using Complex = std::complex<long double>;

struct MathNumber {
  std::optional<Rational> exact;
  Complex value;
};

using Assignment = std::map<std::string, long double>;

// Empty when it is no number: a set, a relation, a variable without a value, a division by zero, an overflow.
std::optional<MathNumber> evaluate(const MathPtr& one, const Assignment& variables = {});

std::set<std::string> variables_of(const MathPtr& one);

// Equal as numbers or, with variables, as expressions: at several points.
bool equal_everywhere(const MathPtr& a, const MathPtr& b);
// a is b times a constant that is not 0 (the same zeros).
bool proportional(const MathPtr& a, const MathPtr& b);

}  // namespace hone::rewards
