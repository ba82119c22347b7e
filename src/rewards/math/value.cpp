#include "rewards/math/value.h"

#include <algorithm>

namespace hone::rewards {

namespace {

Int128 absolute(Int128 a) {
  return a < 0 ? -a : a;
}

Int128 gcd(Int128 a, Int128 b) {
  a = absolute(a);
  b = absolute(b);
  while (b != 0) {
    a %= b;
    std::swap(a, b);
  }
  return a;
}

std::optional<Int128> times(Int128 a, Int128 b) {
  Int128 out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

}  // namespace

std::optional<Rational> make_rational(Int128 p, Int128 q) {
  constexpr Int128 kLowest = static_cast<Int128>(1) << 126;
  if (q == 0 || p <= -kLowest || q <= -kLowest || p >= kLowest || q >= kLowest) return std::nullopt;
  const Int128 common = gcd(p, q) * (q < 0 ? -1 : 1);
  return Rational{p / common, q / common};
}

std::optional<Rational> add(const Rational& a, const Rational& b) {
  const auto left = times(a.p, b.q);
  const auto right = times(b.p, a.q);
  const auto below = times(a.q, b.q);
  Int128 above = 0;
  if (!left || !right || !below || __builtin_add_overflow(*left, *right, &above)) return std::nullopt;
  return make_rational(above, *below);
}

std::optional<Rational> multiply(const Rational& a, const Rational& b) {
  const auto above = times(a.p, b.p);
  const auto below = times(a.q, b.q);
  if (!above || !below) return std::nullopt;
  return make_rational(*above, *below);
}

std::optional<Rational> divide(const Rational& a, const Rational& b) {
  if (b.p == 0) return std::nullopt;
  return multiply(a, {b.p < 0 ? -b.q : b.q, absolute(b.p)});
}

std::optional<Rational> power(const Rational& a, Int128 exponent) {
  if (exponent < 0) {
    const auto inverse = divide({1, 1}, a);
    return inverse && exponent > -1000 ? power(*inverse, -exponent) : std::nullopt;
  }
  if (exponent > 1000) return a == Rational{1, 1} || a == Rational{0, 1} ? std::optional(a) : std::nullopt;
  std::optional<Rational> out = Rational{1, 1};
  std::optional<Rational> square = a;  // never larger than the result: what overflows here does there
  for (Int128 rest = exponent; out && rest > 0; rest /= 2) {
    if (!square) return std::nullopt;
    if (rest % 2 != 0) out = multiply(*out, *square);
    if (rest > 1) square = multiply(*square, *square);
  }
  return out;
}

std::optional<Rational> parse_decimal(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  Int128 above = 0;
  Int128 below = 1;
  bool point = false;
  bool digits = false;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;
    digits = true;
    const auto ten = times(above, 10);
    const auto shift = point ? times(below, 10) : std::optional(below);
    if (!ten || !shift) return std::nullopt;
    above = *ten + (c - '0');
    below = *shift;
  }
  return digits ? make_rational(negative ? -above : above, below) : std::nullopt;
}

MathPtr make_number(Rational number, bool is_float) {
  auto out = std::make_shared<Math>();
  out->kind = Math::kNumber;
  out->number = number;
  out->is_float = is_float;
  return out;
}

MathPtr make_math(Math::Kind kind, std::vector<MathPtr> args, std::string name) {
  auto out = std::make_shared<Math>();
  out->kind = kind;
  out->args = std::move(args);
  out->name = std::move(name);
  for (const MathPtr& one : out->args) out->height = std::max(out->height, one->height + 1);
  if (out->height > kMaxMathHeight) throw MathTooLarge();
  return out;
}

MathPtr minus_one() {
  return make_number({-1, 1});
}

MathPtr negate(const MathPtr& one) {
  if (one->kind == Math::kNumber) return make_number({-one->number.p, one->number.q}, one->is_float);
  return make_math(Math::kMultiply, {make_number({-1, 1}), one});
}

}  // namespace hone::rewards
