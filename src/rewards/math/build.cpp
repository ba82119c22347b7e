#include "rewards/math/build.h"

#include <algorithm>

namespace hone::rewards {

namespace {

// 2 \frac{1}{2} is a sum. Empty: another pair, whose product is meant.
MathPtr mixed_fraction(const MathPtr& left, const MathPtr& right) {
  if (!left->is_integer() || !right->is_rational() || right->number.p <= 0) return nullptr;
  const bool negative = left->number.p < 0;
  const Rational part{negative ? -right->number.p : right->number.p, right->number.q};
  const auto sum = add(left->number, part);
  return sum ? make_number(*sum) : nullptr;
}

}  // namespace

MathPtr flat(Math::Kind kind, const MathPtr& a, const MathPtr& b) {
  Flat out(kind, a);
  out.add(b);
  return out.value();
}

MathPtr quotient(const MathPtr& above, const MathPtr& below) {
  if (!above->is_integer() || !below->is_integer())
    return make_math(Math::kMultiply, {above, make_math(Math::kPower, {below, minus_one()})});
  const auto value = divide(above->number, below->number);
  return value ? make_number(*value) : make_math(Math::kUndefined);
}

MathPtr beside(const std::vector<MathPtr>& all) {
  MathPtr last = all.back();
  std::size_t rest = all.size() - 1;
  for (; rest > 0; --rest) {
    MathPtr sum = mixed_fraction(all[rest - 1], last);
    if (!sum) break;
    last = std::move(sum);
  }
  if (rest == 0) return last;
  Flat out(Math::kMultiply, all[0]);
  for (std::size_t i = 1; i < rest; ++i) out.add(all[i]);
  out.add(last);
  return out.value();
}

MathPtr set_of(std::vector<MathPtr> elements) {
  if (elements.empty()) return make_math(Math::kEmptySet);
  return make_math(Math::kSet, std::move(elements));
}

MathPtr list_value(const std::vector<std::vector<MathPtr>>& rows) {
  if (rows.size() == 1) return rows[0].size() == 1 ? rows[0][0] : set_of(rows[0]);
  const bool single = std::ranges::all_of(rows, [](const auto& row) { return row.size() == 1; });
  std::vector<MathPtr> out;
  for (const auto& row : rows) out.push_back(single ? row[0] : make_math(Math::kTuple, row));
  return set_of(std::move(out));
}

std::vector<MathPtr> flatten(const std::vector<std::vector<MathPtr>>& rows) {
  std::vector<MathPtr> out;
  for (const auto& row : rows) out.insert(out.end(), row.begin(), row.end());
  return out;
}

}  // namespace hone::rewards
