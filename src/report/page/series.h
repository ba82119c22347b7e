// One named number of a run over its steps, reduced while it is read: neighbors are joined into buckets that keep the lowest
// and the highest value, so that 100,000 steps need no more room than 1,000 and no peak is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace hone::report {

class Series {
 public:
  static constexpr std::size_t kMostBuckets = 1024;  // a chart has fewer pixels

  // A bucket stands for consecutive values. Without a finite one among them: a gap, whose numbers mean
  // nothing.
  struct Bucket {
    std::int64_t step = 0;  // of its last value
    std::int64_t values = 0;
    double low = 0, high = 0, sum = 0;
    double mean() const { return sum / static_cast<double>(values); }
  };
  struct Point {
    std::int64_t step = 0;
    double value = 0;
  };

  // `step` is not below that of the call before. NaN and infinite: no value at that step.
  void add(std::int64_t step, double value);

  // At most `most` of them (at least 2), in order of steps; one a value where there are not more.
  std::vector<Bucket> buckets(std::size_t most = kMostBuckets) const;

  // Of all values, exact whatever the buckets hold. Absent: there is no finite value.
  std::int64_t count() const { return count_; }  // of finite values
  std::optional<Point> first() const { return first_; }
  std::optional<Point> last() const { return last_; }
  std::optional<Point> lowest() const { return lowest_; }
  std::optional<Point> highest() const { return highest_; }
  double sum() const { return sum_; }

 private:
  static std::vector<Bucket> joined(const std::vector<Bucket>& buckets);  // by twos

  std::vector<Bucket> buckets_;
  std::int64_t width_ = 1;   // values of a bucket, gaps too
  std::int64_t filled_ = 0;  // of the last one
  std::int64_t count_ = 0;
  double sum_ = 0;
  std::optional<Point> first_, last_, lowest_, highest_;
};

}  // namespace hone::report
