// What the numbers of a step show: entropy and KL (RL-08), sampler against trainer (RL-10), a gradient that
// is cut (GRAD-02), a loss or a gradient that grows (NUM-08), growing memory (MEM-02), preferences that do
// not change or degenerate (PREF-01, PREF-02).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/json.h"
#include "doctor/watch/finding.h"
#include "train/facts/step_facts.h"

namespace hone::doctor {

class PolicyWatch {
 public:
  struct Setup {
    double beta = 0;
    std::int64_t rows = 0;         // samples of an optimizer step
    bool masks_truncated = false;  // mask_truncated_completions
    bool bf16 = false;
    bool exact_kernels = false;  // bf16 products that promise bits (ops/gemm.h)
    double uniform = 0;          // ln V: the entropy of a uniform policy; 0: not known
  };
  explicit PolicyWatch(const Setup& setup) : setup_(setup) {}
  // `top`: the reward is near the highest that the run has seen; a policy with low entropy is then no fault.
  // `live`: samples of the step had an advantage; a step without one has no gradient.
  Findings see(const train::StepFacts& step, bool top, bool live = true);

  base::Json state() const;
  void restore(const base::Json& state);  // BadWatchState (watch_state.h)
  void reset_evidence();                  // resets streaks

 private:
  void see_entropy(const train::StepFacts& step, bool top, Findings& out);
  void see_kl(const train::StepFacts& step, Findings& out);
  void see_ratio_gap(const train::StepFacts& step, Findings& out);

  Setup setup_;
  std::int64_t low_entropy_ = 0, high_entropy_ = 0, high_kl_ = 0, wide_gap_ = 0,
               no_gradient_ = 0;  // steps in a row
};

// Losses that measure progress (SFT, DPO); gradients of any method.
class TrendWatch {
 public:
  // `past_unknown`: the run continues from a checkpoint without its initial loss, so that this check is off.
  TrendWatch(std::int64_t warmup_steps, bool loss_is_progress, bool past_unknown = false)
      : warmup_steps_(warmup_steps), loss_is_progress_(loss_is_progress), past_unknown_(past_unknown) {}
  Findings see(const train::StepFacts& step);
  // Return norms of the gradients: the median of the steps so far but the newest, and the newest; 0: unknown.
  double usual_norm() const;
  double newest_norm() const { return norms_.empty() ? 0 : norms_.back(); }

  base::Json state() const;
  void restore(const base::Json& state);  // BadWatchState
  void reset_evidence();                  // resets everything but the initial statistics

 private:
  void judge_loss(const train::StepFacts& step, Findings& out);
  void judge_norm(const train::StepFacts& step, Findings& out);
  std::int64_t warmup_steps_;
  bool loss_is_progress_, past_unknown_;
  std::int64_t seen_ = 0;
  double initial_ = 0;            // mean of the first losses
  std::deque<double> losses_;     // the newest, after warm-up
  std::deque<double> norms_;      // the newest that are not 0
  std::int64_t large_norms_ = 0;  // in a row
};

// Concerns one process: a resumed run starts without this state.
class MemoryWatch {
 public:
  // `resident`: of this process after the step; `free`: what it can still allocate; bytes.
  Findings see(std::int64_t step, std::int64_t total_steps, std::int64_t resident, std::int64_t free);

 private:
  std::int64_t seen_ = 0;
  std::deque<double> resident_;
};

// DPO's metrics by TRL's names; does nothing without them.
class PreferenceWatch {
 public:
  // `past_unknown`: as TrendWatch. `follows`: the reference moves towards the policy, and may become equal to it.
  explicit PreferenceWatch(bool past_unknown = false, bool follows = false)
      : past_unknown_(past_unknown), follows_(follows) {}
  Findings see(const train::StepFacts& step);

  base::Json state() const;
  void restore(const base::Json& state);  // BadWatchState
  void reset_evidence();

 private:
  bool past_unknown_, follows_;
  std::int64_t stuck_ = 0, seen_ = 0;
  double first_chosen_ = 0, first_margin_ = 0, chosen_ = 0,
         margin_ = 0;  // margin and chosen: moving averages
};

}  // namespace hone::doctor
