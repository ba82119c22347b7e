// Detects reward functions that always fail. A single bad row never ends a run, but a function that fails on
// everything soon does, since its batches have no training signal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "rewards/reward.h"

namespace hone::rewards {

// Batches, one after another, in which a function that has scored before may fail on every request.
inline constexpr int kMaxBrokenBatches = 3;
// Requests (prompts) that one which has never scored may fail on, when its batch is over.
inline constexpr int kMaxBrokenRequests = 4;

class FailureTracker {
 public:
  explicit FailureTracker(std::size_t functions) : functions_(functions) {}

  // As soon as a request is scored.
  void saw(std::size_t function, const Scores& scores);
  bool has_scored(std::size_t function) const { return functions_[function].scored; }
  // When a generation batch is over. UserError with the sentences of Scores::broken when a function has
  // failed on every request of kMaxBrokenBatches batches, or has never scored and failed on
  // kMaxBrokenRequests.
  void end_batch();

 private:
  struct Function {
    bool scored = false;        // or returned None: anything but a failure
    bool fared_better = false;  // a request of this batch
    int requests = 0;           // broken ones since one fared better
    int batches = 0;            // before this one
    bool asked = false;         // in this batch
    std::optional<base::ErrorText> error;
  };
  std::vector<Function> functions_;
};

// Scores::broken where every sample is a failure (`units`: failures that are all there can be), else nullopt.
std::optional<base::ErrorText> all_failed(const std::string& where, const Scores& scores, std::size_t units);

}  // namespace hone::rewards
