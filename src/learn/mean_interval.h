// The mean of scores with a 95 % confidence interval: how far the mean of these prompts may be from that of all such prompts.
//
//   scores of only 0 and 1   Wilson's interval (E. B. Wilson, JASA 22, 1927, pages 209 to 212), which stays within 0 and 1:
//                            (p + z^2/2n -+ z sqrt(p (1 - p) / n + z^2/4n^2)) / (1 + z^2/n), z = 1.96
//   others                   Student's: mean -+ t s / sqrt(n), s the standard deviation with n - 1, t of n - 1 degrees of freedom
//
// Scores count as independent draws, one a prompt. Numbers in, numbers out.
#pragma once

#include <cstdint>
#include <span>

namespace hone::learn {

struct MeanInterval {
  std::int64_t count = 0;    // of scores that are not NaN
  double mean = 0;           // NaN where there are none
  double std = 0;            // with n - 1; NaN of fewer than two
  double low = 0, high = 0;  // NaN where there is no interval: no scores, or one that is neither 0 nor 1
};

// NaN is no score.
MeanInterval mean_interval(std::span<const double> scores);

// The t with 95 % of Student's distribution between -t and t.
double student_t95(std::int64_t degrees);

}  // namespace hone::learn
