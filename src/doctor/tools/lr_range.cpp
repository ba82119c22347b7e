#include "doctor/tools/lr_range.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include "parallel/ranks.h"
#include "train/loop/optimizer.h"
#include "train/loop/step_strategy.h"

namespace hone::doctor {

namespace {

constexpr double kLeastGain = 0.01;  // of the first loss
constexpr double kGoneFar = 0.5;     // above the first loss by this share: nothing more is to be learned

std::vector<double> means_of_five(const std::vector<RangePoint>& points) {
  const auto count = static_cast<std::ptrdiff_t>(points.size());
  std::vector<double> out;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const std::ptrdiff_t begin = std::max<std::ptrdiff_t>(0, i - 2), end = std::min(count, i + 3);
    double sum = 0;
    for (std::ptrdiff_t j = begin; j < end; ++j) sum += points[static_cast<std::size_t>(j)].change;
    out.push_back(sum / static_cast<double>(end - begin));
  }
  return out;
}

double rounded(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  double best = power;
  for (const double digit : {1.0, 2.0, 3.0, 5.0, 10.0}) {
    if (std::abs(std::log(digit * power / value)) < std::abs(std::log(best / value))) best = digit * power;
  }
  return best;
}

// Of the smoothed curve up to its lowest point; the grid is even in log(rate).
std::size_t steepest_before(const std::vector<double>& curve, std::size_t lowest) {
  std::size_t best = lowest;
  double slope = 0;
  for (std::size_t i = 1; i < lowest; ++i) {
    const double here = curve[i + 1] - curve[i - 1];
    if (here < slope) {
      slope = here;
      best = i;
    }
  }
  return best;
}

class Restored {
 public:
  explicit Restored(adapters::Adapter& adapter) : adapter_(adapter), values_(adapter.flat().clone()) {}
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;
  ~Restored() {
    const at::NoGradGuard no_grad;
    adapter_.flat().copy_(values_);
    if (adapter_.flat_gradient().defined()) adapter_.zero_gradient();
  }

 private:
  adapters::Adapter& adapter_;
  at::Tensor values_;
};

}  // namespace

void judge_range(RangeResult& result) {
  result.smoothed = means_of_five(result.points);
  result.steepest = result.lowest = result.diverged = std::nullopt;
  result.proposal = std::nullopt;
  const std::vector<double>& curve = result.smoothed;
  if (curve.empty()) return;
  const auto lowest = static_cast<std::size_t>(std::min_element(curve.begin(), curve.end()) - curve.begin());
  const double gain = -curve[lowest];
  for (std::size_t i = lowest + 1; i < curve.size() && !result.diverged; ++i) {
    if (curve[i] > curve[lowest] + gain / 2) result.diverged = i;
  }
  if (!(gain > kLeastGain * result.first_loss)) return;
  result.lowest = lowest;
  result.steepest = steepest_before(curve, lowest);
  const double turn = result.points[result.diverged.value_or(lowest)].learning_rate;
  result.proposal = rounded(std::min(result.points[*result.steepest].learning_rate, turn / 10));
}

RangeResult range_test(const train::RunView& run, const RangeOptions& options,
                       const std::function<void(const RangePoint&)>& on_point,
                       const std::atomic<bool>& stop) {
  adapters::Adapter& adapter = *run.adapter;
  const Restored restored(adapter);
  const std::int64_t batches =
      std::clamp<std::int64_t>(run.method->steps_per_epoch(), 1, std::min(options.batches, options.steps));
  learn::Optimizer optimizer = train::make_optimizer(run.plan, adapter);
  parallel::OneRank alone;
  const std::unique_ptr<train::StepStrategy> steps = train::make_step_strategy(run, optimizer, alone);
  const auto passes_of = [&](std::int64_t step) -> train::StepPasses {
    return {.backward = [&run, step, batches] { return run.method->backward(step % batches); }};
  };

  RangeResult out;
  std::vector<double> first;
  for (std::int64_t step = 0; step < batches && !stop.load(); ++step)
    first.push_back(steps->measure(passes_of(step)).loss.loss);
  out.first_loss = std::accumulate(first.begin(), first.end(), 0.0) / static_cast<double>(batches);

  // A step's loss is that of the update before it: each backward serves both.
  const double factor =
      std::pow(options.highest / options.lowest, 1.0 / static_cast<double>(options.steps - 1));
  double rate = options.lowest;
  bool moved = steps->step(passes_of(0), rate).is_finite();
  for (std::int64_t step = 1; step <= options.steps && moved && !stop.load(); ++step) {
    const double next = rate * factor;
    const train::StepResult done = steps->step(passes_of(step), next);
    const double loss = done.loss.loss;
    if (!std::isfinite(loss)) break;
    out.points.push_back({.learning_rate = rate,
                          .loss = loss,
                          .change = loss - first[static_cast<std::size_t>(step % batches)]});
    if (on_point) on_point(out.points.back());
    if (out.points.back().change > kGoneFar * out.first_loss) break;
    moved = done.is_finite();
    rate = next;
  }
  judge_range(out);
  return out;
}

}  // namespace hone::doctor
