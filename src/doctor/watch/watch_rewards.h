// What generation batches show: dead groups (RL-02), completions that are cut (RL-03), components that never
// vary (RL-04), a component that is nearly all of the reward (RL-07), repetition (RL-08).
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/json.h"
#include "doctor/watch/finding.h"
#include "train/facts/step_facts.h"

namespace hone::doctor {

class RewardWatch {
 public:
  // `weights`: reward_weights, empty for all 1. `past_unknown`: the run continues from a checkpoint without
  // the statistics of its first batches; checks that need them are off.
  RewardWatch(std::int64_t group_size, std::vector<double> weights, bool masks_truncated,
              bool past_unknown = false)
      : group_size_(group_size),
        weights_(std::move(weights)),
        masks_truncated_(masks_truncated),
        past_unknown_(past_unknown) {}

  Findings see(const train::RolloutFacts& rollouts);

  // These are over all completions so far, and equal before the first.
  double lowest() const { return lowest_; }
  double highest() const { return highest_; }
  bool past_unknown() const { return past_unknown_; }

  base::Json state() const;
  void restore(const base::Json& state);  // BadWatchState (watch_state.h)
  // Resets windows and streaks; the statistics of the first batches are kept.
  void reset_evidence();

 private:
  // A generation batch in sums.
  struct Batch {
    std::int64_t samples = 0, groups = 0, dead = 0;
    std::int64_t scored = 0;    // samples with a score
    std::int64_t unscored = 0;  // of the dead groups: those whose completions no reward scores
    std::int64_t cut = 0, cut_scored = 0;
    std::int64_t at_highest = 0, long_enough = 0, repeating = 0;
    double reward = 0, reward_squares = 0;  // sums of all scored completions
    double cut_reward = 0;                  // of those that are cut
    bool cut_at_lowest = true;              // all of them are at the run's lowest
    std::vector<double> parts;              // weighted sums, a component each
    void add(const Batch& other);
    base::Json state() const;
    static Batch of(const base::Json& state);
  };
  struct Component {
    std::string name;
    std::int64_t count = 0;
    double first = 0;
    bool varied = false, skipped = false;  // it gave other scores; it gave some completions none
    std::string sample;                    // the end of a completion that it scored
  };

  Batch sums_of(const train::RolloutFacts& rollouts);
  double total_of(const train::CompletionFacts& one) const;  // NaN: no function scored it
  bool of_these(const std::vector<std::string>& names) const;
  void see_components(const train::RolloutFacts& rollouts);
  Batch window() const;
  void judge_dead(Findings& out) const;
  void explain_by_weights(base::Verdict& found) const;
  void judge_first(const Batch& first, Findings& out) const;
  void judge_cut(const Batch& all, Findings& out) const;
  void judge_components(Findings& out) const;
  void judge_balance(const Batch& all, Findings& out) const;
  void judge_spread(const Batch& all, Findings& out) const;
  void judge_repeats(const Batch& all, Findings& out) const;

  std::int64_t group_size_;
  std::vector<double> weights_;
  bool masks_truncated_, past_unknown_;
  std::deque<Batch> batches_;  // the window, newest last
  std::vector<Component> components_;
  // Consecutive batches whose groups are all dead, up to now.
  Batch streak_;
  std::int64_t streak_batches_ = 0;
  bool ever_live_ = false;  // a group had an advantage
  double lowest_ = 0, highest_ = 0;
  std::int64_t seen_batches_ = 0;
  Batch baseline_;
  std::string repeated_;  // what the newest repeating completion repeats
};

}  // namespace hone::doctor
