#include "learn/mean_interval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "base/error.h"

namespace hone::learn {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kNormal95 = 1.959963984540054;

// The share of Student's distribution between -t and t: Abramowitz and Stegun, 26.7.3 and 26.7.4.
double between(double t, std::int64_t degrees) {
  const double angle = std::atan(t / std::sqrt(static_cast<double>(degrees)));
  const double sine = std::sin(angle), square = std::cos(angle) * std::cos(angle);
  const bool odd = degrees % 2 != 0;
  double term = odd ? std::cos(angle) : 1, sum = degrees > 1 ? term : 0;
  for (std::int64_t k = odd ? 3 : 2; k < degrees; k += 2) {
    term *= square * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  return odd ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
}

}  // namespace

double student_t95(std::int64_t degrees) {
  base::require(degrees >= 1, "learn::student_t95", "at least one degree of freedom");
  constexpr std::int64_t kAsNormal = 1'000'000;
  if (degrees > kAsNormal) return kNormal95;
  double low = 0, high = 13;  // 12.7 with one degree
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (between(middle, degrees) < 0.95 ? low : high) = middle;
  }
  return (low + high) / 2;
}

MeanInterval mean_interval(std::span<const double> scores) {
  std::vector<double> known;
  for (const double score : scores) {
    if (!std::isnan(score)) known.push_back(score);
  }
  MeanInterval out{.count = static_cast<std::int64_t>(known.size()),
                   .mean = kNone,
                   .std = kNone,
                   .low = kNone,
                   .high = kNone};
  if (known.empty()) return out;
  const auto n = static_cast<double>(known.size());
  double sum = 0, squares = 0;
  for (const double score : known) sum += score;
  out.mean = sum / n;
  for (const double score : known) squares += (score - out.mean) * (score - out.mean);
  if (known.size() > 1) out.std = std::sqrt(squares / (n - 1));
  if (std::ranges::all_of(known, [](double score) { return score == 0 || score == 1; })) {
    const double z = kNormal95, p = out.mean;
    const double middle = p + z * z / (2 * n), scale = 1 + z * z / n;
    const double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    out.low = std::max(0.0, (middle - half) / scale);
    out.high = std::min(1.0, (middle + half) / scale);
  } else if (known.size() > 1) {
    const double half = student_t95(out.count - 1) * out.std / std::sqrt(n);
    out.low = out.mean - half;
    out.high = out.mean + half;
  }
  return out;
}

}  // namespace hone::learn
