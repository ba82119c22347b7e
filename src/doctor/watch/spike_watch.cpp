#include "doctor/watch/spike_watch.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "doctor/number_format.h"
#include "doctor/watch/watch_limits.h"
#include "doctor/watch/watch_state.h"

namespace hone::doctor {

using base::Level;

namespace {

double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// "60, 120, 180 and 2 more".
std::string steps_text(const std::vector<std::int64_t>& steps) {
  constexpr std::size_t kShown = 5;
  std::string out;
  for (std::size_t i = 0; i < std::min(steps.size(), kShown); ++i)
    out += (i == 0 ? "" : ", ") + std::to_string(steps[i]);
  return steps.size() <= kShown ? out : out + " and " + std::to_string(steps.size() - kShown) + " more";
}

// Every gap is within the share of their mean.
bool are_regular(const std::vector<std::int64_t>& steps) {
  const double mean =
      static_cast<double>(steps.back() - steps.front()) / static_cast<double>(steps.size() - 1);
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (std::abs(static_cast<double>(steps[i] - steps[i - 1]) - mean) > limits::kSpikeGaps * mean)
      return false;
  }
  return true;
}

}  // namespace

// Far above the median, by both measures: a noisy loss has a large spread, a settled one a small median.
bool SpikeWatch::is_spike(double loss) const {
  if (static_cast<std::int64_t>(usual_.size()) < limits::kSpikeFrom) return false;
  const std::vector<double> values(usual_.begin(), usual_.end());
  const double middle = middle_of(values);
  std::vector<double> away;
  for (const double one : values) away.push_back(std::abs(one - middle));
  constexpr double kOfNormal = 1.4826;  // a normal distribution's deviation over its median distance
  const double spread = std::max(kOfNormal * middle_of(away), limits::kSpikeLeastSpread * std::abs(middle));
  return loss > limits::kSpikeOverMedian * middle &&
         loss - middle > std::max(limits::kSpikeLeast, limits::kSpikeDeviations * spread);
}

bool SpikeWatch::at_border(std::int64_t step) const {
  if (steps_per_epoch_ < limits::kSpikeLeastEpoch) return false;
  const std::int64_t behind =
      step % steps_per_epoch_;  // 0: the last step of an epoch; 1: the first of the next
  return behind <= 1 || behind == steps_per_epoch_ - 1;
}

Findings SpikeWatch::see(std::int64_t step, double loss) {
  if (!std::isfinite(loss)) return {};
  if (is_spike(loss)) {
    above_ += 1;
    highest_ = above_ == 1 ? loss : std::max(highest_, loss);
    last_ = step;
    if (above_ <= limits::kSpikeLongest) return {};
    // It does not come back: other checks tell a loss that diverges.
    usual_.clear();
    above_ = 0;
    return {};
  }
  usual_.push_back(loss);
  if (static_cast<std::int64_t>(usual_.size()) > limits::kSpikeWindow) usual_.pop_front();
  // Neighbors are one spike, such as the last step of an epoch and the first of the next.
  return std::exchange(above_, 0) > 0 ? judge() : Findings();
}

// After a spike, when the loss is back.
Findings SpikeWatch::judge() {
  const std::int64_t reach = std::max(limits::kSpikeReach, 3 * steps_per_epoch_);
  std::erase_if(spikes_, [&](std::int64_t one) { return last_ - one > reach; });
  spikes_.push_back(last_);
  if (static_cast<std::int64_t>(spikes_.size()) > limits::kSpikesKept) spikes_.erase(spikes_.begin());
  if (static_cast<std::int64_t>(spikes_.size()) < limits::kSpikesToSpeak) return {};
  const auto borders =
      std::count_if(spikes_.begin(), spikes_.end(), [&](std::int64_t one) { return at_border(one); });
  const bool at_borders =
      static_cast<double>(borders) >= limits::kSpikesAtBorders * static_cast<double>(spikes_.size());
  const double middle = middle_of({usual_.begin(), usual_.end()});
  base::Verdict found{.code = "NUM-13", .level = Level::kWarn};
  found.what = "the loss jumps " + std::string(at_borders ? "at the ends of epochs" : "in single steps") +
               ", and comes back: " + short_number(highest_) + " at step " + std::to_string(last_) +
               ", the median is " + short_number(middle);
  found.evidence = std::to_string(spikes_.size()) + " jumps above " + short_number(limits::kSpikeOverMedian) +
                   " times the median, at steps " + steps_text(spikes_);
  found.not_this = "learning_rate: a loss that diverges stays above";
  if (at_borders) {
    found.evidence += "; an epoch has " + std::to_string(steps_per_epoch_) + " steps";
    found.cause =
        "the rows at the end of an epoch are others than the rest: the file's order is kept, or its last "
        "rows are of another kind";
    found.fix = "train_sampling_strategy: random; read the last rows of the file";
    found.cost = "each epoch ends with steps that undo a part of it";
  } else if (are_regular(spikes_)) {
    found.evidence +=
        "; about every " +
        std::to_string((spikes_.back() - spikes_.front()) / static_cast<std::int64_t>(spikes_.size() - 1)) +
        " steps";
    found.cause = "suspected: a part of the data that comes back in turn, such as one set of a mixture";
    found.fix = "read the rows of these steps";
  } else {
    found.cause = "suspected: single rows of another kind, such as broken or very long ones";
    found.fix = "read the rows of these steps";
  }
  Findings out;
  add_finding(out, std::move(found), at_borders ? "borders" : "steps");
  return out;
}

base::Json SpikeWatch::state() const {
  return {{"usual", usual_}, {"steps", spikes_}, {"above", above_}, {"highest", highest_}, {"last", last_}};
}

void SpikeWatch::restore(const base::Json& state) {
  const StateReader in(state);
  usual_ = in.numbers<std::deque<double>>("usual", limits::kSpikeWindow);
  above_ = std::llround(in.number("above"));
  highest_ = in.number("highest");
  last_ = std::llround(in.number("last"));
  spikes_.clear();
  for (const double step : in.numbers<std::vector<double>>("steps", limits::kSpikesKept))
    spikes_.push_back(std::llround(step));
  if (!std::is_sorted(spikes_.begin(), spikes_.end())) StateReader::refuse("steps");
}

}  // namespace hone::doctor
