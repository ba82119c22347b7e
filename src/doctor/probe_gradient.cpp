// P1, P2: gradient and update reach.
#include "doctor/examination.h"

namespace hone::doctor {

Verdicts probe_gradient(train::OpenedRun& /*run*/) {
  return {};
}

}  // namespace hone::doctor
