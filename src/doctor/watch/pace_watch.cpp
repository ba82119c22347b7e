#include "doctor/watch/pace_watch.h"

#include <algorithm>
#include <vector>

#include "base/strings/plural.h"
#include "doctor/number_format.h"
#include "doctor/watch/watch_limits.h"

namespace hone::doctor {

using base::Level;

Findings PaceWatch::see(const train::StepFacts& step) {
  Findings out;
  if (products_.kernels.empty() || told_ || step.seconds < limits::kSecondsToCompare ||
      step.tokens_this_step == 0)
    return out;
  paces_.push_back(static_cast<double>(step.tokens_this_step) / step.seconds);
  if (paces_.size() < limits::kStepsOfPace) return out;
  if (paces_.size() > limits::kStepsOfPace) paces_.pop_front();
  std::vector<double> sorted(paces_.begin(), paces_.end());
  std::sort(sorted.begin(), sorted.end());
  const double pace = sorted[sorted.size() / 2];
  best_ = std::max(best_, pace);
  if (pace >= limits::kSlowPace * best_) return out;
  told_ = true;
  const double now = measure_();
  const bool processors = now < limits::kSlowProducts * products_.gflops;
  base::Verdict found{.code = "ENV-03", .level = processors ? Level::kWarn : Level::kNote};
  found.what = "steps take " + short_number(best_ / pace) + " times as long as earlier ones";
  found.evidence = short_number(pace) + " tokens a second in the last " +
                   base::counted(limits::kStepsOfPace, "step") + ", " + short_number(best_) +
                   " before; products reach " + short_number(now) + " GFLOP/s, " +
                   short_number(products_.gflops) + " before step 1";
  found.cause = processors ? "other programs on these processors, or a processor that is throttled"
                           : "suspected: memory or disk, or longer rows";
  found.not_this = processors ? "the rows: products of one size are slower too"
                              : "the processors: products are as fast as before step 1";
  found.fix = processors ? "look for other programs (top), or give this one fewer threads"
                         : "look at free memory, swap and disk";
  found.cost = "a run at half its speed or less";
  add_finding(out, std::move(found), "pace");
  return out;
}

}  // namespace hone::doctor
