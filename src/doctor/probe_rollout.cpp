// P6: real rollouts, before any update.
#include "doctor/examination.h"

namespace hone::doctor {

Verdicts probe_rollout(train::OpenedRun& /*run*/) {
  return {};
}

}  // namespace hone::doctor
