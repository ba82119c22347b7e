#include "train/device_facts.h"

#include "ops/machine/cuda.h"
#include "ops/machine/device_memory.h"

namespace hone::train {

DeviceFacts device_facts(const model::CausalLm& model) {
  DeviceFacts out;
  const at::Device device = model.device();
  if (ops::is_host(device)) return out;
  out.name = device.str();
  if (!device.is_cuda()) return out;
  const ops::CudaState& cuda = ops::load_cuda();
  out.name += ", " + ops::describe(cuda.driver, device.index());
  out.driver = ops::versions(cuda);
  return out;
}

}  // namespace hone::train
