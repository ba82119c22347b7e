#include "rewards/math/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

namespace hone::rewards {

namespace {

using Number = std::optional<MathNumber>;

constexpr int kPoints = 6;

MathNumber exact(const Rational& value) {
  return {value, Complex(value.value(), 0)};
}
MathNumber rough(Complex value) {
  return {std::nullopt, value};
}

Complex multiply(Complex a, Complex b) {
  if (a.imag() == 0 && b.imag() == 0) return {a.real() * b.real(), 0};  // infinity times a real is no NaN
  return a * b;
}

Number sum(const MathNumber& a, const MathNumber& b) {
  if (a.exact && b.exact)
    if (const auto out = add(*a.exact, *b.exact)) return exact(*out);
  return rough(a.value + b.value);
}

Number product(const MathNumber& a, const MathNumber& b) {
  if (a.exact && b.exact)
    if (const auto out = multiply(*a.exact, *b.exact)) return exact(*out);
  return rough(multiply(a.value, b.value));
}

Number raised(const MathNumber& base, const MathNumber& exponent) {
  if (base.exact && exponent.exact && exponent.exact->is_integer()) {
    if (base.exact->p == 0 && exponent.exact->p < 0) return std::nullopt;
    if (const auto out = power(*base.exact, exponent.exact->p)) return exact(*out);
  }
  if (base.value == Complex(0)) {
    if (exponent.value.real() <= 0) return std::nullopt;
    return exact({0, 1});
  }
  if (base.value.imag() == 0 && exponent.value.imag() == 0) {
    const long double x = base.value.real();
    const long double y = exponent.value.real();
    if (x > 0) return rough({std::pow(x, y), 0});
    if (y == std::floor(y)) return rough({std::pow(x, y), 0});
  }
  return rough(std::pow(base.value, exponent.value));
}

std::optional<Int128> whole(const MathNumber& one) {
  if (!one.exact || !one.exact->is_integer()) return std::nullopt;
  return one.exact->p;
}

Number floor_of(const MathNumber& one, bool up) {
  if (one.exact) {
    const Int128 p = up ? -one.exact->p : one.exact->p;
    const Int128 q = one.exact->q;
    const Int128 down = p / q - (p % q != 0 && p < 0 ? 1 : 0);
    return exact({up ? -down : down, 1});
  }
  if (one.value.imag() != 0) return std::nullopt;
  const long double x = one.value.real();
  const long double near = std::round(x);
  if (std::abs(x - near) < 1e-15L * std::max(1.0L, std::abs(x))) return rough({near, 0});
  return rough({up ? std::ceil(x) : std::floor(x), 0});
}

Number binomial(const MathNumber& n, const MathNumber& k) {
  const auto above = whole(n);
  const auto below = whole(k);
  if (!above || !below || *above < 0 || *below < 0 || *above > 10'000) return std::nullopt;
  if (*below > *above) return exact({0, 1});
  const Int128 few = std::min(*below, *above - *below);  // it overflows, or ends, within some hundred steps
  std::optional<Rational> out = Rational{1, 1};
  for (Int128 i = 1; out && i <= few; ++i) {
    out = multiply(*out, {*above - few + i, 1});
    if (out) out = divide(*out, {i, 1});
  }
  return out ? Number(exact(*out)) : std::nullopt;
}

Number factorial(const MathNumber& one) {
  const auto n = whole(one);
  if (!n || *n < 0) return std::nullopt;
  if (*n > 33)
    return *n > 1700 ? std::nullopt : Number(rough({std::tgamma(static_cast<long double>(*n) + 1), 0}));
  Rational out{1, 1};
  for (Int128 i = 2; i <= *n; ++i) out.p *= i;
  return exact(out);
}

Number absolute(const MathNumber& one) {
  if (one.exact) return exact({one.exact->p < 0 ? -one.exact->p : one.exact->p, one.exact->q});
  return rough({std::abs(one.value), 0});
}

Number elementary(const std::string& name, Complex x) {
  if (name == "exp") return rough(std::exp(x));
  if (name == "sin") return rough(std::sin(x));
  if (name == "cos") return rough(std::cos(x));
  if (name == "tan") return rough(std::tan(x));
  if (name == "csc") return rough(1.0L / std::sin(x));
  if (name == "sec") return rough(1.0L / std::cos(x));
  if (name == "cot") return rough(std::cos(x) / std::sin(x));
  if (name == "asin") return rough(std::asin(x));
  if (name == "acos") return rough(std::acos(x));
  if (name == "atan") return rough(std::atan(x));
  if (name == "acsc") return rough(std::asin(1.0L / x));
  if (name == "asec") return rough(std::acos(1.0L / x));
  if (name == "acot") return rough(std::atan(1.0L / x));
  if (name == "sinh") return rough(std::sinh(x));
  if (name == "cosh") return rough(std::cosh(x));
  if (name == "tanh") return rough(std::tanh(x));
  return std::nullopt;
}

// A function that nobody knows: a number that depends only on its name and arguments.
Number unknown_function(const std::string& name, const std::vector<MathNumber>& args) {
  long double sum = 0.1L;
  for (const char c : name) sum = std::fmod(sum * 31.7L + static_cast<unsigned char>(c), 101.3L);
  long double weight = 1;
  for (const auto& one : args) {
    weight *= 1.37L;
    sum += std::sin(weight * one.value.real() + 2 * one.value.imag());
  }
  return rough({sum, 0});
}

Number function(const std::string& name, const std::vector<MathNumber>& args) {
  if (name.starts_with("of ")) return unknown_function(name, args);
  if (name == "factorial") return factorial(args[0]);
  if (name == "binomial") return binomial(args[0], args[1]);
  if (name == "abs") return absolute(args[0]);
  if (name == "floor" || name == "ceil") return floor_of(args[0], name == "ceil");
  if (name == "log") {
    if (args[0].value == Complex(0) || args[1].value == Complex(0)) return std::nullopt;
    return rough(std::log(args[0].value) / std::log(args[1].value));
  }
  return elementary(name, args[0].value);
}

// Nodes and weights of Gauss and Legendre on [-1, 1]: zeros of the polynomial, by Newton's method.
constexpr std::size_t kNodes = 24;
struct Quadrature {
  std::array<long double, kNodes> at{}, weight{};

  Quadrature() {
    constexpr auto kDegree = static_cast<long double>(kNodes);
    for (std::size_t i = 0; i < kNodes; ++i) {
      long double x = std::cos(std::numbers::pi_v<long double> * (static_cast<long double>(i) + 0.75L) /
                               (kDegree + 0.5L));
      long double slope = 1;
      for (int round = 0; round < 30; ++round) {
        long double before = 1, value = x;
        for (std::size_t n = 2; n <= kNodes; ++n) {
          const auto k = static_cast<long double>(n);
          before = std::exchange(value, ((2 * k - 1) * x * value - (k - 1) * before) / k);
        }
        slope = kDegree * (x * value - before) / (x * x - 1);
        x -= value / slope;
      }
      at[i] = x;
      weight[i] = 2 / ((1 - x * x) * slope * slope);
    }
  }
};

Number integral_in_panels(const MathPtr& one, long double low, long double high, Assignment at, int panels) {
  static const Quadrature rule;
  const long double half = (high - low) / static_cast<long double>(2 * panels);
  Complex out = 0;
  for (int panel = 0; panel < panels; ++panel) {
    const long double middle = low + half * static_cast<long double>(2 * panel + 1);
    for (std::size_t i = 0; i < kNodes; ++i) {
      at[one->args[1]->name] = middle + half * rule.at[i];
      const Number value = evaluate(one->args[0], at);
      if (!value || !std::isfinite(std::abs(value->value))) return std::nullopt;
      out += rule.weight[i] * value->value;
    }
  }
  return rough(half * out);
}

// Of calculus.h; empty where two numbers of panels do not agree: a pole, a jump.
Number integral(const MathPtr& one, const Assignment& variables) {
  const Number low = evaluate(one->args[2], variables), high = evaluate(one->args[3], variables);
  if (!low || !high || low->value.imag() != 0 || high->value.imag() != 0) return std::nullopt;
  const long double from = low->value.real(), to = high->value.real();
  if (!std::isfinite(from) || !std::isfinite(to)) return std::nullopt;
  const Number few = integral_in_panels(one, from, to, variables, 4);
  const Number more = few ? integral_in_panels(one, from, to, variables, 7) : std::nullopt;
  if (!more) return std::nullopt;
  const long double scale = std::max({1e-3L, std::abs(few->value), std::abs(more->value)});
  return std::abs(few->value - more->value) <= 1e-16L * scale ? more : std::nullopt;
}

Number work_out(const MathPtr& one, const Assignment& variables) {
  if (one->kind == Math::kFunction && one->name == "integral") return integral(one, variables);
  std::vector<MathNumber> args;
  for (const MathPtr& arg : one->args) {
    const Number value = evaluate(arg, variables);
    if (!value) return std::nullopt;
    args.push_back(*value);
  }
  Number out;
  switch (one->kind) {
    case Math::kAdd:
    case Math::kMultiply:
      out = args[0];
      for (std::size_t i = 1; out && i < args.size(); ++i)
        out = one->kind == Math::kAdd ? sum(*out, args[i]) : product(*out, args[i]);
      return out;
    case Math::kPower:
      return raised(args[0], args[1]);
    case Math::kPercent:
      return product(args[0], exact({1, 100}));
    case Math::kFunction:
      return function(one->name, args);
    default:
      return std::nullopt;
  }
}

bool near(Complex a, Complex b, long double tolerance) {
  if (std::isinf(a.real()) || std::isinf(b.real())) return a == b;
  const long double size = std::max(std::abs(a), std::abs(b));
  return std::abs(a - b) <= tolerance * std::max(size, 1e-300L);
}

// Variable i at point p: of both signs, not small, not integers.
long double coordinate(std::size_t variable, int point) {
  const long double x = std::fmod(
      0.754877666L * static_cast<long double>(variable + 1) +
          0.569840291L * static_cast<long double>(point + 1) * static_cast<long double>(variable + 2),
      1.0L);
  return (point % 2 == 0 ? 1 : -1) * (0.4L + 2.3L * x);
}

Assignment point_of(const std::set<std::string>& names, int point) {
  Assignment out;
  std::size_t index = 0;
  for (const auto& name : names) out[name] = coordinate(index++, point);
  return out;
}

void collect_variables(const MathPtr& one, std::set<std::string>& out) {
  if (one->kind == Math::kSymbol) out.insert(one->name);
  if (one->kind == Math::kFunction && one->name == "integral") return;  // has no other than its own
  for (const MathPtr& arg : one->args) collect_variables(arg, out);
}

std::set<std::string> both_variables(const MathPtr& a, const MathPtr& b) {
  std::set<std::string> out;
  collect_variables(a, out);
  collect_variables(b, out);
  return out;
}

// The terms of a difference cancel: the sum is measured by its largest term.
bool zero_beside(Complex value, Complex scale) {
  return std::abs(value) <= 1e-12L * std::max(1.0L, std::abs(scale));
}

}  // namespace

std::optional<MathNumber> evaluate(const MathPtr& one, const Assignment& variables) {
  Number out;
  switch (one->kind) {
    case Math::kNumber:
      return exact(one->number);
    case Math::kPi:
      return rough({std::numbers::pi_v<long double>, 0});
    case Math::kE:
      return rough({std::numbers::e_v<long double>, 0});
    case Math::kEulerGamma:
      return rough({std::numbers::egamma_v<long double>, 0});
    case Math::kImaginary:
      return rough({0, 1});
    case Math::kInfinity:
      return rough({INFINITY, 0});
    case Math::kSymbol: {
      const auto found = variables.find(one->name);
      if (found == variables.end()) return std::nullopt;
      return rough({found->second, 0});
    }
    default:
      out = work_out(one, variables);
  }
  if (out && (std::isnan(out->value.real()) || std::isnan(out->value.imag()))) return std::nullopt;
  return out;
}

std::set<std::string> variables_of(const MathPtr& one) {
  std::set<std::string> out;
  collect_variables(one, out);
  return out;
}

bool equal_everywhere(const MathPtr& a, const MathPtr& b) {
  const auto names = both_variables(a, b);
  if (names.empty()) {
    const Number left = evaluate(a);
    const Number right = evaluate(b);
    if (!left || !right) return false;
    if (left->exact && right->exact) return left->exact == right->exact;
    if (near(left->value, right->value, 1e-15L)) return true;
    // both nearly 0: canceled
    const long double size = std::max(std::abs(left->value), std::abs(right->value));
    return size < 1e-15L;
  }
  int compared = 0;
  for (int point = 0; point < kPoints; ++point) {
    const Assignment at = point_of(names, point);
    const Number left = evaluate(a, at);
    const Number right = evaluate(b, at);
    if (!left || !right || std::isinf(std::abs(left->value)) || std::isinf(std::abs(right->value))) continue;
    if (!near(left->value, right->value, 1e-11L) && !zero_beside(left->value - right->value, left->value))
      return false;
    ++compared;
  }
  return compared >= 2;
}

bool proportional(const MathPtr& a, const MathPtr& b) {
  const auto names = both_variables(a, b);
  if (names.empty() || variables_of(a) != variables_of(b)) return false;
  std::optional<Complex> ratio;
  int compared = 0;
  for (int point = 0; point < kPoints; ++point) {
    const Assignment at = point_of(names, point);
    const Number left = evaluate(a, at);
    const Number right = evaluate(b, at);
    if (!left || !right || std::abs(left->value) < 1e-9L || std::abs(right->value) < 1e-9L) continue;
    const Complex here = left->value / right->value;
    if (ratio && !near(*ratio, here, 1e-11L)) return false;
    ratio = here;
    ++compared;
  }
  return compared >= 2;
}

}  // namespace hone::rewards
