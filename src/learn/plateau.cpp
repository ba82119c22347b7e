#include "learn/plateau.h"

#include <algorithm>

namespace hone::learn {
namespace {

double worst_of(const PlateauOptions& options) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return options.maximize ? -kInfinity : kInfinity;
}

bool is_better(const PlateauOptions& options, double metric, double best) {
  if (options.maximize)
    return metric > (options.relative ? best * (options.threshold + 1.0) : best + options.threshold);
  return metric < (options.relative ? best * (1.0 - options.threshold) : best - options.threshold);
}

void reduce(PlateauState& state, const PlateauOptions& options) {
  const double next = std::max(state.rate * options.factor, options.min_lr);
  if (state.rate - next > options.eps) state.rate = next;
}

// StreamingAverage.streamavg.
double smoothed(PlateauState& state, const PlateauOptions& options, double metric) {
  state.window.push_back(metric);
  state.window_sum += metric;
  if (static_cast<std::int64_t>(state.window.size()) > options.window_size) {
    state.window_sum -= state.window.front();
    state.window.erase(state.window.begin());
  }
  return state.window_sum / static_cast<double>(state.window.size());
}

void raise(PlateauState& state, const PlateauOptions& options) {
  const double next = std::min(state.rate / options.factor, options.max_lr);
  if (next - state.rate > options.eps) state.rate = next;
  state.reset_left = options.reset_start;
}

void reduce_or_reset(PlateauState& state, const PlateauOptions& options) {
  reduce(state, options);
  if (state.rate > options.min_lr) return;
  state.reset_left -= 1;
  if (state.reset_left <= 0) state = begin_plateau(options, state.initial);
}

}  // namespace

PlateauState begin_plateau(const PlateauOptions& options, double learning_rate) {
  PlateauState out;
  out.rate = out.initial = learning_rate;
  out.best = worst_of(options);
  out.reset_left = options.reset_start;
  return out;
}

void step_plateau(PlateauState& state, const PlateauOptions& options, double metric) {
  if (is_better(options, metric, state.best)) {
    state.best = metric;
    state.bad = 0;
  } else {
    state.bad += 1;
  }
  if (state.cooldown > 0) {
    state.cooldown -= 1;
    state.bad = 0;
  }
  if (state.bad > options.patience) {
    reduce(state, options);
    state.cooldown = options.cooldown;
    state.bad = 0;
  }
}

void step_greedy(PlateauState& state, const PlateauOptions& options, double metric) {
  if (options.smooth) metric = smoothed(state, options, metric);
  if (state.cooldown > 0 || state.warmup > 0) {
    (state.cooldown > 0 ? state.cooldown : state.warmup) -= 1;
    state.bad = state.good = 0;
    return;
  }
  if (is_better(options, metric, state.best)) {
    state.best = metric;
    state.bad = 0;
    state.good += 1;
  } else {
    state.bad += 1;
    state.good = 0;
  }
  // GreedyLR sets these after a reset too.
  if (state.good > options.patience) {
    raise(state, options);
    state.warmup = options.warmup;
    state.good = 0;
  } else if (state.bad > options.patience) {
    reduce_or_reset(state, options);
    state.cooldown = options.cooldown;
    state.bad = 0;
  }
}

}  // namespace hone::learn
