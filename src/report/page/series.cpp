#include "report/page/series.h"

#include <algorithm>
#include <cmath>

namespace hone::report {

namespace {

void join_bucket(Series::Bucket& into, const Series::Bucket& next) {
  into.step = next.step;
  if (next.values == 0) return;
  into.low = into.values == 0 ? next.low : std::min(into.low, next.low);
  into.high = into.values == 0 ? next.high : std::max(into.high, next.high);
  into.sum += next.sum;
  into.values += next.values;
}

}  // namespace

std::vector<Series::Bucket> Series::joined(const std::vector<Bucket>& buckets) {
  std::vector<Bucket> out;
  out.reserve(buckets.size() / 2 + 1);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (i % 2 == 0) {
      out.push_back(buckets[i]);
    } else {
      join_bucket(out.back(), buckets[i]);
    }
  }
  return out;
}

void Series::add(std::int64_t step, double value) {
  const bool is_value = std::isfinite(value);
  if (is_value) {
    const Point here{.step = step, .value = value};
    if (!first_) first_ = here;
    last_ = here;
    if (!lowest_ || value < lowest_->value) lowest_ = here;
    if (!highest_ || value > highest_->value) highest_ = here;
    ++count_;
    sum_ += value;
  }
  const Bucket one = is_value ? Bucket{.step = step, .values = 1, .low = value, .high = value, .sum = value}
                              : Bucket{.step = step};
  if (!buckets_.empty() && filled_ < width_) {
    join_bucket(buckets_.back(), one);
    ++filled_;
    return;
  }
  if (buckets_.size() == kMostBuckets) {
    buckets_ = joined(buckets_);
    width_ *= 2;
  }
  buckets_.push_back(one);
  filled_ = 1;
}

std::vector<Series::Bucket> Series::buckets(std::size_t most) const {
  std::vector<Bucket> out = buckets_;
  while (out.size() > std::max<std::size_t>(most, 2)) out = joined(out);
  return out;
}

}  // namespace hone::report
