// P10: save, load, merge, export.
#include "doctor/examination.h"

namespace hone::doctor {

Verdicts probe_round_trip(train::OpenedRun& /*run*/) {
  return {};
}

}  // namespace hone::doctor
