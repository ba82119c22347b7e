#include "rewards/math/calculus.h"

#include <algorithm>
#include <numeric>

#include "rewards/math/evaluate.h"

namespace hone::rewards {

namespace {

constexpr Int128 kMostTerms = 1'000;
constexpr long kWorkOfAPoint = 20;  // of the parser's attempts, for a node at the points of an integral

long nodes_of(const MathPtr& one) {
  long out = 1;
  for (const MathPtr& arg : one->args) out += nodes_of(arg);
  return out;
}

bool spend(long& work, long cost) {
  work -= cost;
  return work >= 0;
}

MathPtr substituted(const MathPtr& one, const std::string& name, const MathPtr& value) {
  if (one->kind == Math::kSymbol) return one->name == name ? value : one;
  if (one->args.empty()) return one;
  auto out = std::make_shared<Math>(*one);
  for (MathPtr& arg : out->args) arg = substituted(arg, name, value);
  return out;
}

std::optional<Int128> whole_number(const MathPtr& one) {
  const auto value = evaluate(one);
  if (!value || !value->exact || !value->exact->is_integer()) return std::nullopt;
  return value->exact->p;
}

bool has_integral(const MathPtr& one) {
  return (one->kind == Math::kFunction && one->name == "integral") ||
         std::ranges::any_of(one->args, has_integral);
}

void collect_differentials(const MathPtr& one, std::vector<std::string>& out) {
  if (one->kind == Math::kSymbol && one->name.size() > 1 && one->name.starts_with('d') &&
      std::ranges::find(out, one->name) == out.end())
    out.push_back(one->name);
  for (const MathPtr& arg : one->args) collect_differentials(arg, out);
}

MathPtr common(const std::string& name, const std::vector<MathPtr>& all) {
  Int128 out = name == "gcd" ? 0 : 1;
  for (const MathPtr& one : all) {
    const auto value = whole_number(one);
    constexpr Int128 kMost = Int128{1} << 62;
    if (!value || *value >= kMost || *value <= -kMost) return nullptr;
    const auto next = static_cast<std::int64_t>(*value), before = static_cast<std::int64_t>(out);
    if (name == "lcm" && next == 0) return make_number({0, 1});
    out = name == "gcd" ? std::gcd(before, next)
                        : Int128{before / std::gcd(before, next)} * (next < 0 ? -next : next);
    if (out >= kMost) return nullptr;
  }
  return make_number({out, 1});
}

}  // namespace

MathPtr terms_of(Math::Kind kind, const MathPtr& body, const std::string& name, const MathPtr& first,
                 const MathPtr& last, long& work) {
  const auto begin = whole_number(first), end = whole_number(last);
  if (!begin || !end || *end < *begin - 1 || *end - *begin >= kMostTerms) return nullptr;
  if (!spend(work, nodes_of(body) * static_cast<long>(*end - *begin + 1))) return nullptr;
  std::vector<MathPtr> terms = {make_number({kind == Math::kAdd ? 0 : 1, 1})};
  for (Int128 i = *begin; i <= *end; ++i) terms.push_back(substituted(body, name, make_number({i, 1})));
  return make_math(kind, std::move(terms));
}

MathPtr definite_integral(const MathPtr& body, const std::string& name, const MathPtr& low,
                          const MathPtr& high, long& work) {
  if (has_integral(body) || !spend(work, kWorkOfAPoint * nodes_of(body))) return nullptr;
  const MathPtr out =
      make_math(Math::kFunction, {body, make_math(Math::kSymbol, {}, name), low, high}, "integral");
  return evaluate(out) ? out : nullptr;
}

MathPtr definite_integral_of_quotient(const MathPtr& body, const MathPtr& low, const MathPtr& high,
                                      long& work) {
  std::vector<std::string> found;
  collect_differentials(body, found);
  if (found.size() != 1) return nullptr;
  std::string name = found[0].substr(1);
  if (name.starts_with('\\')) name.erase(0, 1);
  return definite_integral(substituted(body, found[0], make_number({1, 1})), name, low, high, work);
}

MathPtr one_of_several(const std::string& name, const std::vector<MathPtr>& all) {
  if (name == "gcd" || name == "lcm") return common(name, all);
  MathPtr out;
  long double best = 0;
  for (const MathPtr& one : all) {
    const auto value = evaluate(one);
    if (!value || value->value.imag() != 0) return nullptr;
    const long double here = value->value.real();
    if (!out || (name == "max" ? here > best : here < best)) {
      out = one;
      best = here;
    }
  }
  return out;
}

}  // namespace hone::rewards
