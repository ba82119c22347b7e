#include "rewards/math/compare.h"

#include <algorithm>
#include <cmath>

#include "base/strings/ascii.h"
#include "rewards/math/evaluate.h"
#include "rewards/math/matrix.h"

namespace hone::rewards {

namespace {

bool is_relation(const MathPtr& one) {
  return one->kind == Math::kRelation || one->kind == Math::kChain;
}

bool is_equation(const MathPtr& one) {
  if (one->kind == Math::kChain) return std::ranges::all_of(one->args, is_equation);
  return one->kind == Math::kRelation && one->name == "=";
}

const MathPtr& first_side(const MathPtr& one) {
  return one->kind == Math::kChain ? one->args.front()->args[0] : one->args[0];
}
const MathPtr& last_side(const MathPtr& one) {
  return one->kind == Math::kChain ? one->args.back()->args[1] : one->args[1];
}

bool is_assignment(const MathPtr& one) {
  return is_equation(one) && only_symbols(first_side(one));
}

bool undefined(const MathPtr& one) {
  return one->kind == Math::kUndefined || std::ranges::any_of(one->args, undefined);
}

// The same structure: what sympy calls ==.
bool identical(const MathPtr& a, const MathPtr& b) {
  if (a->kind != b->kind || a->name != b->name || a->args.size() != b->args.size()) return false;
  if (a->kind == Math::kNumber) return a->number == b->number && a->is_float == b->is_float;
  if (a->left_open != b->left_open || a->right_open != b->right_open) return false;
  for (std::size_t i = 0; i < a->args.size(); ++i)
    if (!identical(a->args[i], b->args[i])) return false;
  return true;
}

// A number, or a number per cent.
const MathPtr* plain_number(const MathPtr& one) {
  if (one->kind == Math::kNumber) return &one;
  if (one->kind == Math::kPercent && one->args[0]->kind == Math::kNumber) return &one->args[0];
  return nullptr;
}

bool has_float(const MathPtr& one) {
  return one->is_float || std::ranges::any_of(one->args, has_float);
}

// An integer, however it is written, without a decimal point.
bool is_whole(const MathPtr& one) {
  if (has_float(one)) return false;
  const auto value = evaluate(one);
  return value && value->exact && value->exact->is_integer();
}

// Rounded to 6 places, a half to the even side; of large numbers the fraction is lost anyway.
std::optional<long double> rounded(const MathPtr& one) {
  const auto value = evaluate(one);
  if (!value || value->value.imag() != 0) return std::nullopt;
  if (value->exact) {
    if (const auto scaled = multiply(*value->exact, {1'000'000, 1})) {
      Int128 down = scaled->p / scaled->q;
      Int128 rest = scaled->p % scaled->q;
      if (rest < 0) rest += scaled->q, --down;
      const Int128 twice = 2 * rest;
      if (twice > scaled->q || (twice == scaled->q && down % 2 != 0)) ++down;
      return static_cast<long double>(down);
    }
  }
  return std::nearbyint(value->value.real() * 1e6L);
}

bool same_number(const MathPtr& gold, const MathPtr& answer) {
  const MathPtr* const left = plain_number(gold);
  const MathPtr* const right = plain_number(answer);
  if ((left != nullptr && (*left)->is_float) || (right != nullptr && (*right)->is_float)) {
    if (is_whole(gold) != is_whole(answer)) return equal_everywhere(gold, answer);  // 0.0000001 is not 0
    const auto a = rounded(gold);
    const auto b = rounded(answer);
    return a && b && *a == *b;
  }
  // 9 % is 9 as well as 9/100.
  if (left != nullptr && right != nullptr && (*left)->is_integer() && (*right)->is_integer() &&
      (*left)->number == (*right)->number)
    return true;
  return equal_everywhere(gold, answer);
}

// abc read as a name and as a product of names.
std::string joined(const MathPtr& one) {
  if (one->kind != Math::kMultiply) return {};
  std::string out;
  for (const MathPtr& arg : one->args) {
    if (arg->kind != Math::kSymbol && arg->kind != Math::kE) return {};
    out += arg->kind == Math::kE ? "e" : arg->name;
  }
  return out;
}

bool same_symbols(const MathPtr& a, const MathPtr& b) {
  const auto is_e = [](const MathPtr& name, const MathPtr& e) {
    return name->kind == Math::kSymbol && name->name == "e" && e->kind == Math::kE;
  };
  if (is_e(a, b) || is_e(b, a)) return true;
  if (a->kind == Math::kSymbol && b->kind == Math::kSymbol) return a->name == b->name;
  const MathPtr& name = a->kind == Math::kSymbol ? a : b;
  const MathPtr& other = a->kind == Math::kSymbol ? b : a;
  if (const std::string text = joined(other); !text.empty())
    return base::lower_ascii(name->name) == base::lower_ascii(text);
  if (!other->is_rational()) return false;
  const auto digits = [](Int128 value) { return std::to_string(static_cast<long long>(value)); };
  const Rational& number = other->number;
  return name->name == digits(number.p) + (number.is_integer() ? "" : "/" + digits(number.q));
}

// ---- sets of reals as pieces

struct Piece {
  long double low, high;
  bool low_open, high_open;
};
using Pieces = std::vector<Piece>;

bool holds_nothing(const Piece& one) {
  return one.low > one.high || (one.low == one.high && (one.low_open || one.high_open));
}

Pieces tidy(Pieces all) {
  std::erase_if(all, holds_nothing);
  std::ranges::sort(all, [](const Piece& a, const Piece& b) {
    return a.low != b.low ? a.low < b.low : a.low_open < b.low_open;
  });
  Pieces out;
  for (const Piece& one : all) {
    const bool touches =
        !out.empty() && (one.low < out.back().high ||
                         (one.low == out.back().high && !(one.low_open && out.back().high_open)));
    if (!touches) {
      out.push_back(one);
    } else if (one.high > out.back().high || (one.high == out.back().high && !one.high_open)) {
      out.back().high = one.high;
      out.back().high_open = one.high_open;
    }
  }
  return out;
}

Pieces complement(const Pieces& all) {
  Pieces out;
  Piece gap{-INFINITY, 0, true, true};
  for (const Piece& one : all) {
    gap.high = one.low;
    gap.high_open = !one.low_open;
    out.push_back(gap);
    gap.low = one.high;
    gap.low_open = !one.high_open;
  }
  gap.high = INFINITY;
  gap.high_open = true;
  out.push_back(gap);
  return tidy(out);
}

Pieces intersection(const Pieces& a, const Pieces& b) {
  Pieces out = complement(a);
  for (const Piece& one : complement(b)) out.push_back(one);
  return complement(tidy(out));
}

std::optional<long double> real_value(const MathPtr& one) {
  const auto value = evaluate(one);
  if (!value || value->value.imag() != 0) return std::nullopt;
  return value->value.real();
}

std::optional<Pieces> pieces_of(const MathPtr& one) {
  switch (one->kind) {
    case Math::kEmptySet:
      return Pieces{};
    case Math::kReals:
      return Pieces{{-INFINITY, INFINITY, true, true}};
    case Math::kInterval: {
      const auto low = real_value(one->args[0]);
      const auto high = real_value(one->args[1]);
      if (!low || !high) return std::nullopt;
      return tidy({{*low, *high, one->left_open || std::isinf(*low), one->right_open || std::isinf(*high)}});
    }
    case Math::kSet: {
      Pieces out;
      for (const MathPtr& arg : one->args) {
        const auto at = real_value(arg);
        if (!at) return std::nullopt;
        out.push_back({*at, *at, false, false});
      }
      return tidy(out);
    }
    case Math::kUnion:
    case Math::kIntersection:
    case Math::kComplement: {
      const auto left = pieces_of(one->args[0]);
      auto right = pieces_of(one->args[1]);
      if (!left || !right) return std::nullopt;
      if (one->kind == Math::kIntersection) return intersection(*left, *right);
      if (one->kind == Math::kComplement) return intersection(*left, complement(*right));
      right->insert(right->end(), left->begin(), left->end());
      return tidy(*right);
    }
    default:
      return std::nullopt;
  }
}

bool same_pieces(const Pieces& a, const Pieces& b) {
  const auto same = [](long double x, long double y) {
    return x == y || (std::isfinite(x) && std::isfinite(y) &&
                      std::abs(x - y) <= 1e-15L * std::max(std::abs(x), std::abs(y)));
  };
  return std::ranges::equal(a, b, [&](const Piece& x, const Piece& y) {
    return same(x.low, y.low) && same(x.high, y.high) && x.low_open == y.low_open &&
           x.high_open == y.high_open;
  });
}

std::size_t nodes(const MathPtr& one) {
  std::size_t out = 1;
  for (const MathPtr& arg : one->args) out += nodes(arg);
  return out;
}

// The same elements in any order.
bool same_elements(const std::vector<MathPtr>& a, std::vector<MathPtr> b) {
  if (a.size() != b.size()) return false;
  return std::ranges::all_of(a, [&b](const MathPtr& one) {
    const auto found =
        std::ranges::find_if(b, [&one](const MathPtr& other) { return same_math(one, other); });
    if (found == b.end()) return false;
    b.erase(found);
    return true;
  });
}

bool same_in_order(const std::vector<MathPtr>& a, const std::vector<MathPtr>& b) {
  return std::ranges::equal(a, b, [](const MathPtr& x, const MathPtr& y) { return same_math(x, y); });
}

// What is written twice counts once.
std::vector<MathPtr> distinct(const std::vector<MathPtr>& all) {
  std::vector<MathPtr> out;
  for (const MathPtr& one : all)
    if (std::ranges::none_of(out, [&one](const MathPtr& other) { return identical(one, other); }))
      out.push_back(one);
  return out;
}

// Every element is compared with every other: sets of more than some 700 numbers are equal only when
// identical.
bool compare_finite(const MathPtr& gold, const MathPtr& answer) {
  constexpr std::size_t kMaxPairs = 500'000;
  if (nodes(gold) * nodes(answer) > kMaxPairs) return false;
  if (gold->kind == Math::kSet)
    return same_elements(distinct(gold->args),
                         answer->kind == Math::kSet ? distinct(answer->args) : answer->args);
  return same_in_order(gold->args,
                       answer->args);  // an answer {1, 2} counts as the tuple that it was written as
}

bool compare_sets(const MathPtr& gold, const MathPtr& answer) {
  const auto as_set = [](const MathPtr& one) {
    return one->is_set() || one->kind == Math::kTuple ? one : make_math(Math::kSet, {one});
  };
  const MathPtr a = as_set(gold);
  const MathPtr b = as_set(answer);
  if (a->kind == Math::kInterval && b->kind == Math::kInterval)
    return a->left_open == b->left_open && a->right_open == b->right_open && same_in_order(a->args, b->args);
  if (identical(a, b)) return true;
  if (a->is_set() && b->is_set()) {
    const auto left = pieces_of(a);
    const auto right = pieces_of(b);
    if (left && right && same_pieces(*left, *right)) return true;
  }
  const auto finite = [](const MathPtr& one) { return one->kind == Math::kSet || one->kind == Math::kTuple; };
  if (finite(a) && finite(b)) return compare_finite(a, b);
  // (1, 2) is read as an interval, and may be meant as a pair.
  const auto pair = [](const MathPtr& one) {
    return one->kind == Math::kInterval && one->left_open && one->right_open
               ? make_math(Math::kTuple, one->args)
               : nullptr;
  };
  if (const MathPtr tuple = pair(a); tuple && finite(b) && b->args.size() == 2)
    return compare_finite(tuple, b);
  if (const MathPtr tuple = pair(b); tuple && finite(a) && a->args.size() == 2)
    return compare_finite(a, tuple);
  return false;
}

// ---- relations

MathPtr difference(const MathPtr& one, bool turned) {
  return make_math(Math::kAdd, {one->args[turned ? 1 : 0], negate(one->args[turned ? 0 : 1])});
}

std::string turned_mark(const std::string& mark) {
  if (mark == "<") return ">";
  if (mark == ">") return "<";
  if (mark == "<=") return ">=";
  if (mark == ">=") return "<=";
  return mark;
}

bool compare_relations(const MathPtr& gold, const MathPtr& answer) {
  if (identical(gold, answer)) return true;
  if (gold->kind == Math::kChain && answer->kind == Math::kChain)
    return gold->args.size() == answer->args.size() &&
           std::ranges::equal(gold->args, answer->args, compare_relations);
  if (gold->kind != Math::kRelation || answer->kind != Math::kRelation) return false;
  const auto numbers = [](const MathPtr& one) {
    return std::ranges::none_of(one->args, [](const MathPtr& arg) {
      return arg->is_set() || arg->kind == Math::kTuple || is_relation(arg) || has_matrix(arg);
    });
  };
  if (!numbers(gold) || !numbers(answer))
    return gold->name == answer->name && same_in_order(gold->args, answer->args);
  if (gold->name == answer->name && equal_everywhere(difference(gold, false), difference(answer, false)))
    return true;
  if (gold->name == "!=") return false;
  if (turned_mark(gold->name) == answer->name &&
      equal_everywhere(difference(gold, false), difference(answer, true)))
    return true;
  // math_verify solves both; of one variable its comparison of the solutions fails, so 2x = 10 is not x = 5.
  return gold->name == "=" && answer->name == "=" && variables_of(gold).size() > 1 &&
         proportional(difference(gold, false), difference(answer, false));
}

// x > 2, 1 < x < 3: the values of the one variable. Empty when it is anything else.
std::optional<Pieces> relation_pieces(const MathPtr& one) {
  if (one->kind == Math::kChain) {
    std::optional<Pieces> out;
    for (const MathPtr& part : one->args) {
      const auto here = relation_pieces(part);
      if (!here) return std::nullopt;
      out = out ? intersection(*out, *here) : here;
    }
    return variables_of(one).size() == 1 ? out : std::nullopt;
  }
  const bool turned = one->args[1]->kind == Math::kSymbol;
  if (!turned && one->args[0]->kind != Math::kSymbol) return std::nullopt;
  const auto bound = real_value(one->args[turned ? 0 : 1]);
  if (!bound) return std::nullopt;
  const std::string mark = turned ? turned_mark(one->name) : one->name;
  if (mark == "=") return Pieces{{*bound, *bound, false, false}};
  if (mark == "!=") return complement({{*bound, *bound, false, false}});
  const bool open = mark.size() == 1;
  if (mark[0] == '<') return Pieces{{-INFINITY, *bound, true, open}};
  return Pieces{{*bound, INFINITY, open, true}};
}

// By element, whatever the brackets.
bool same_matrices(const MathPtr& a, const MathPtr& b) {
  const auto same_rows = [](const MathPtr& left, const MathPtr& right) {
    return std::ranges::equal(left->args, right->args, same_number);
  };
  return a && b && std::ranges::equal(a->args, b->args, same_rows);
}

}  // namespace

bool only_symbols(const MathPtr& one) {
  if (one->kind == Math::kSymbol) return true;
  if (one->kind == Math::kPower && one->args[1]->is_integer() && one->args[1]->number == Rational{-1, 1}) {
    // (a + b)/2 counts as well: a number has no parts that are no symbols
    const MathPtr& base = one->args[0];
    return base->kind == Math::kSymbol || std::ranges::all_of(base->args, only_symbols);
  }
  return !one->args.empty() && std::ranges::all_of(one->args, only_symbols);
}

MathPtr make_interval(const MathPtr& left, const MathPtr& right, bool left_open, bool right_open) {
  const auto low = real_value(left);
  const auto high = real_value(right);
  if (low && high) {
    if ((left_open && right_open && *high <= *low) || (!left_open && !right_open && *high < *low))
      return make_math(Math::kTuple, {left, right});
    if (*low == *high && !left_open && !right_open) return make_math(Math::kSet, {left});
    if (*high <= *low) return make_math(Math::kEmptySet);
  }
  if (std::max(left->height, right->height) >= kMaxMathHeight) throw MathTooLarge();
  auto out = std::make_shared<Math>();
  out->kind = Math::kInterval;
  out->args = {left, right};
  out->height = std::max(left->height, right->height) + 1;
  out->left_open = left_open || (low && std::isinf(*low));
  out->right_open = right_open || (high && std::isinf(*high));
  return out;
}

bool same_math(const MathPtr& first, const MathPtr& second) {
  MathPtr gold = first;
  MathPtr answer = second;
  if (undefined(gold) || undefined(answer)) return false;
  const bool gold_assigns = is_assignment(gold);
  const bool gold_equates = is_equation(gold);
  const bool answer_equates = is_equation(answer);
  const auto ends = [](const MathPtr& one) {
    return make_math(Math::kRelation, {first_side(one), last_side(one)}, "=");
  };
  if (gold_assigns) gold = ends(gold);
  if (is_assignment(answer)) answer = ends(answer);
  if (answer_equates && !gold_equates) {
    answer = last_side(answer);
  } else if (gold_assigns && !answer_equates) {
    gold = last_side(gold);
  }
  if (is_relation(gold) && is_relation(answer)) return compare_relations(gold, answer);
  if (is_relation(gold) && answer->is_set()) {  // x > 2 is (2, oo)
    const auto left = relation_pieces(gold);
    const auto right = pieces_of(answer);
    return left && right && same_pieces(*left, *right);
  }
  if (is_relation(gold) || is_relation(answer)) return false;
  const auto listed = [](const MathPtr& one) { return one->is_set() || one->kind == Math::kTuple; };
  if (listed(gold) || listed(answer)) return compare_sets(gold, answer);
  if (has_matrix(gold) || has_matrix(answer)) return same_matrices(matrix_value(gold), matrix_value(answer));
  if (identical(gold, answer)) return true;
  if (gold->kind == Math::kSymbol || answer->kind == Math::kSymbol) return same_symbols(gold, answer);
  return same_number(gold, answer);
}

}  // namespace hone::rewards
