// RL-19: the KL to the reference is in one part of the completions, such as their first tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/json.h"
#include "doctor/watch/finding.h"
#include "train/facts/step_facts.h"

namespace hone::doctor {

class DepthWatch {
 public:
  // Looks at a generation batch; it does nothing where there is no reference.
  Findings see(const train::KlByDepth& kl);
  bool has_seen() const { return has_seen_; }

  base::Json state() const;
  void restore(const base::Json& state);  // BadWatchState (watch_state.h)
  void reset_evidence() { batches_ = 0; }

 private:
  bool has_seen_ = false;
  std::size_t part_ = 0;      // the eighth with the most of it in the newest batch
  std::int64_t batches_ = 0;  // in a row in which that part had too much
};

}  // namespace hone::doctor
