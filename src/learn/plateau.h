// The two schedules that follow a metric: torch's ReduceLROnPlateau and transformers' GreedyLR (5.23), each
// stepped once after an evaluation. Plain numbers; the state is saved with the run.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace hone::learn {

// lr_scheduler_kwargs of reduce_lr_on_plateau and, from `warmup` on, those that only greedy has. The defaults
// are those of reduce_lr_on_plateau.
struct PlateauOptions {
  bool maximize = false;       // mode max; else min: a lower metric is better
  double factor = 0.1;         // below 1
  std::int64_t patience = 10;  // evaluations without progress (greedy: or with it) before the rate changes
  double threshold = 1e-4;
  bool relative = true;  // threshold_mode rel; else abs
  std::int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;  // smaller changes of the rate are not made
  std::int64_t warmup = 0;
  double max_lr = 1;
  bool smooth = false;  // the metric is a mean over window_size evaluations
  std::int64_t window_size = 50;
  std::int64_t reset_start = 500;  // reductions at min_lr before everything begins again

  bool operator==(const PlateauOptions&) const = default;
};
inline constexpr PlateauOptions kGreedyDefaults = {
    .factor = 0.95, .threshold = 1e-6, .relative = false, .min_lr = 1e-3};

struct PlateauState {
  double rate = 0;                                        // of the next step
  double initial = 0;                                     // learning_rate
  double best = std::numeric_limits<double>::infinity();  // mode max: -infinity
  std::int64_t bad = 0, good = 0;                         // evaluations in a row
  std::int64_t cooldown = 0, warmup = 0;                  // evaluations that are not counted yet
  std::int64_t reset_left = 0;
  std::vector<double> window;
  double window_sum = 0;

  bool operator==(const PlateauState&) const = default;
};

PlateauState begin_plateau(const PlateauOptions& options, double learning_rate);
// After an evaluation with this metric. A NaN counts as no progress.
void step_plateau(PlateauState& state, const PlateauOptions& options, double metric);
void step_greedy(PlateauState& state, const PlateauOptions& options, double metric);

}  // namespace hone::learn
