// P8: the reward functions on answers that are known.
#include "doctor/examination.h"

namespace hone::doctor {

Verdicts probe_reward(train::OpenedRun& /*run*/, Depth /*depth*/) {
  return {};
}

}  // namespace hone::doctor
