// ENV-03 before step 1: what the products of this run reach, beside what they could.
#include <cmath>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

// ours: an idle machine reaches 0.7 to 0.9 of its limit; below half somebody else has the processors.
constexpr double kShareWarn = 0.5;
// ours: AMX waits for its operands, and reaches 0.5 of its registers' limit on an idle machine.
constexpr double kShareWarnOfTiles = 0.25;
constexpr double kOtherIsFaster = 2;  // ours: times the rate of the run's precision
// ours: in less time, as for a small model, a busy machine may have no undisturbed moment.
constexpr double kSecondsToJudge = 0.05;

std::string rate_of(double gflops) {
  return format::number(std::round(gflops)) + " GFLOP/s";
}

}  // namespace

Verdict judge_speed(const train::ProductFacts& facts) {
  Verdict out{.code = "ENV-03"};
  if (facts.kernels.empty()) {
    out.what = "not measured on this device";
    return out;
  }
  out.what = facts.precision + " products: " + rate_of(facts.gflops);
  const bool sure = facts.seconds >= kSecondsToJudge;
  const double share = facts.limit > 0 ? facts.gflops / facts.limit : 1;
  if ((sure || facts.limit == 0) && facts.other_gflops > kOtherIsFaster * facts.gflops) {
    out.level = Level::kWarn;
    out.what = "products in " + facts.other_precision + " are " +
               format::number(std::round(10 * facts.other_gflops / facts.gflops) / 10) +
               " times as fast here as in " + facts.precision;
    out.evidence = facts.precision + " " + rate_of(facts.gflops) + ", " + facts.other_precision + " " +
                   rate_of(facts.other_gflops) + ", with " + facts.kernels + " kernels";
    out.cause = facts.held_to.empty() ? "this processor has no fast instructions for " + facts.precision
                                      : "--instructions holds this run to " + facts.held_to;
    out.fix = facts.other_precision == "float32" ? "bf16: false and dtype: float32, where the memory suffices"
                                                 : "bf16: true and dtype: bfloat16";
    out.cost = "steps that take as many times longer";
  } else if (sure && share < (facts.kernels == "amx" ? kShareWarnOfTiles : kShareWarn)) {
    out.level = Level::kWarn;
    out.what = "products reach " + format::percent(share, 1) + " of what these instructions can do here";
    out.evidence = rate_of(facts.gflops) + " of " + rate_of(facts.limit) + ", the best of many short tries";
    out.cause = "suspected: other programs on these processors";
    out.not_this = "slow instructions: the limit is measured with the same ones, on registers alone";
    out.fix = "look for other programs (top), or give this one fewer threads";
    out.cost = "a run at half its speed or less";
  }
  return out;
}

Verdict check_speed(const train::RunView& run) {
  return judge_speed(run.start.products);
}

}  // namespace hone::doctor
