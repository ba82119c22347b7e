#include "rewards/python/worker_script.h"

#include "rewards/python/worker_frames.h"
#include "rewards/python/worker_text.h"

namespace hone::rewards {

const python::Program& worker_program() {
  static const python::Program program = {
      .who = kRewardWorker,
      .what_for = "to run reward functions",
      .text = std::string(python::worker_base()) + std::string(kEndpointPython) + std::string(kWorkerPython)};
  return program;
}

}  // namespace hone::rewards
