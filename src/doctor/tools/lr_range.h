// A learning rate from a range test (Smith, "Cyclical Learning Rates", WACV 2017): a short run whose rate
// rises by the same factor each step; where the loss falls fastest the rate is useful, where it rises again
// it is too high.
//
// The steps cycle through the first few batches, and each loss is compared with that of the same batch (and
// the same dropout mask) before the first update. The change is the effect of the updates, without the
// difference between batches.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "train/opening/run_view.h"

namespace hone::doctor {

struct RangeOptions {
  std::int64_t steps = 40;
  double lowest = 1e-6, highest = 0.1;  // of the first and the last step
  std::int64_t batches = 8;             // number of batches in the cycle; fewer when an epoch has fewer
};

struct RangePoint {
  double learning_rate = 0;  // of the update after which `loss` was measured
  double loss = 0;           // nats per scored token
  double change = 0;         // loss - the loss of the same batch before any update
};

struct RangeResult {
  double first_loss = 0;           // mean over the batches, before any update
  std::vector<RangePoint> points;  // ends early once the loss is far above its start
  std::vector<double> smoothed;    // of `change`: means of five
  // Numbers of points. `diverged`: after `lowest`, half of the gain is lost again; empty: not within the
  // range.
  std::optional<std::size_t> steepest, lowest, diverged;
  // Empty when no rate lowers the loss by 1 %. Else the smaller of the rate where the loss falls fastest and
  // a tenth of where it turns or diverges, rounded to 1, 2, 3 or 5 times a power of ten.
  std::optional<double> proposal;
};

// Smooths and evaluates the curve: a function of only points and first_loss.
void judge_range(RangeResult& result);

// Runs it on an opened run that trains by a loss (SFT), then restores the adapter bit for bit. `on_point` may
// be empty; `stop` as in a training loop. Nothing is written.
RangeResult range_test(const train::RunView& run, const RangeOptions& options,
                       const std::function<void(const RangePoint&)>& on_point, const std::atomic<bool>& stop);

}  // namespace hone::doctor
