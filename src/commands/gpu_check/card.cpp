// What is there: facts of the report, and one number that goes to the card and comes back.
#include <ATen/ATen.h>
#include <torch/headeronly/version.h>

#include "base/process/instruction_level.h"
#include "commands/gpu_check/stage.h"
#include "doctor/probes/machine/device_machine.h"
#include "ops/machine/cuda.h"
#include "ops/machine/device_memory.h"

namespace hone::commands {

void stage_card(const StageInput& input, StageLog& log) {
  log.fact("libtorch", TORCH_VERSION);
  log.fact("instructions", base::name_of(base::machine_level()));
  if (input.device.is_cuda()) {
    const ops::CudaState& cuda = ops::load_cuda();
    const ops::CudaCard& card = cuda.driver.cards.at(static_cast<std::size_t>(input.device.index()));
    log.fact("card", card.name);
    log.fact("capability", card.capability);
    log.fact("memory", card.memory);
    log.fact("cards", cuda.driver.cards.size());
    log.fact("versions", ops::versions(cuda));
    log.fact("library", cuda.library);
    log.fact("cublas", doctor::cublas_version());
    const std::string missing = ops::own_kernels_missing();
    log.fact("own kernels", missing.empty() ? "used" : "not used: " + missing);
  }
  log.begin("numbers to the device and back");
  const at::Tensor x = at::arange(1000, at::kFloat);
  if (!at::equal((x.to(input.device) * 2).cpu(), x * 2)) log.fail("other numbers came back");
  log.fact("free", ops::device_memory(input.device).free);
}

}  // namespace hone::commands
