// A mathematical object as it was read, before anything is worked out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::rewards {

__extension__ using Int128 = __int128;

// A fraction in lowest terms with a positive denominator, exact to 127 bits.
struct Rational {
  Int128 p = 0;
  Int128 q = 1;
  bool operator==(const Rational&) const = default;
  bool is_integer() const { return q == 1; }
  long double value() const { return static_cast<long double>(p) / static_cast<long double>(q); }
};

// Empty when the result does not fit (or a division by zero).
std::optional<Rational> make_rational(Int128 p, Int128 q);
std::optional<Rational> add(const Rational& a, const Rational& b);
std::optional<Rational> multiply(const Rational& a, const Rational& b);
std::optional<Rational> divide(const Rational& a, const Rational& b);
std::optional<Rational> power(const Rational& a, Int128 exponent);
// "12", "-0.25": digits with at most one '.', commas taken out before.
std::optional<Rational> parse_decimal(std::string_view text);

struct Math;
using MathPtr = std::shared_ptr<const Math>;

struct Math {
  enum Kind {
    kNumber,   // number; is_float: it was written with a decimal point
    kPercent,  // args[0] per cent
    kSymbol,   // name
    kPi,
    kE,
    kImaginary,
    kEulerGamma,
    kInfinity,
    kUndefined,  // a division by zero
    kAdd,
    kMultiply,
    kPower,
    kFunction,  // name, args
    kSet,       // args, in the order they were written
    kTuple,
    kInterval,
    kUnion,
    kIntersection,
    kComplement,
    kEmptySet,
    kReals,
    kRelation,  // name: = < <= > >= !=; args: both sides
    kChain,     // args: relations, a < b < c
    kMatrix     // args: rows, each a kTuple of as many elements
  } kind;
  Rational number{};
  bool is_float = false;
  std::string name{};
  std::vector<MathPtr> args{};
  bool left_open = false;
  bool right_open = false;
  int height = 1;  // of the tree below, itself included

  bool is_integer() const { return kind == kNumber && !is_float && number.is_integer(); }
  bool is_rational() const { return kind == kNumber && !is_float; }
  bool is_set() const { return kind == kSet || (kind >= kInterval && kind <= kReals); }
};

// Every walk over a tree recurses, its destructor too: make_math throws MathTooLarge above this height.
constexpr int kMaxMathHeight = 1000;
struct MathTooLarge {};

MathPtr make_number(Rational number, bool is_float = false);
MathPtr minus_one();
MathPtr make_math(Math::Kind kind, std::vector<MathPtr> args = {}, std::string name = {});
MathPtr negate(const MathPtr& one);

}  // namespace hone::rewards
