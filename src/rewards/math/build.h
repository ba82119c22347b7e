// Makes mathematical objects as the grammar of latex2sympy2_extended folds them.
#pragma once

#include <vector>

#include "rewards/math/value.h"

namespace hone::rewards {

// a + b + c and a b c stay flat: one node, made when all its parts are there.
class Flat {
 public:
  Flat(Math::Kind kind, MathPtr first) : kind_(kind), first_(std::move(first)) {}

  void add(const MathPtr& one) {
    if (args_.empty()) append(first_);
    append(one);
  }
  MathPtr value() const { return args_.empty() ? first_ : make_math(kind_, args_); }

 private:
  void append(const MathPtr& one) {
    if (one->kind == kind_) {
      args_.insert(args_.end(), one->args.begin(), one->args.end());
    } else {
      args_.push_back(one);
    }
  }

  Math::Kind kind_;
  MathPtr first_;
  std::vector<MathPtr> args_;
};

MathPtr flat(Math::Kind kind, const MathPtr& a, const MathPtr& b);

// above / below; a quotient of integers is a number.
MathPtr quotient(const MathPtr& above, const MathPtr& below);
// Side by side, from the right: mixed fractions, then a product.
MathPtr beside(const std::vector<MathPtr>& all);

MathPtr set_of(std::vector<MathPtr> elements);
// A list's rows (cut by ;) of elements (cut by ,): one element alone is itself.
MathPtr list_value(const std::vector<std::vector<MathPtr>>& rows);
std::vector<MathPtr> flatten(const std::vector<std::vector<MathPtr>>& rows);

}  // namespace hone::rewards
