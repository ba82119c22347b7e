#include "commands/ranks/placement.h"

#include "base/gpu_reports.h"
#include "config/placement.h"
#include "ops/machine/cuda.h"

namespace hone::commands {

void place(std::string& device, std::vector<std::string>& notes) {
  const at::Device opened = ops::open_device(device);
  const bool chooses = device == config::kAutoDevice;
  if (chooses || config::is_gpu(device)) device = opened.str();  // "cuda:0" for "cuda"
  if (!chooses) return;
  const ops::CudaState& cuda = ops::load_cuda();
  notes.push_back("device auto: " + (cuda.loaded ? device + ", " + ops::describe(cuda.driver, 0)
                                                 : device + ", since CUDA is not there: " + cuda.why_not()));
}

void place(config::Plan& plan) {
  const auto held = config::only_on_cpu(plan);
  if (plan.device == config::kAutoDevice && held) {
    plan.device = "cpu";
    plan.notes.push_back("device auto: cpu, with " + held->found + ": " + held->why);
    return;
  }
  place(plan.device, plan.notes);
}

void place_and_tell(std::string& device, std::vector<std::string>& notes) {
  const std::size_t before = notes.size();
  place(device, notes);
  if (!config::is_gpu(device)) return;
  const std::string standing = *base::kCudaStanding == '\0' ? "" : std::string(", ") + base::kCudaStanding;
  if (notes.size() == before)
    notes.push_back("device " + device + ": " +
                    ops::describe(ops::load_cuda().driver, at::Device(device).index()));
  notes.back() += standing;
}

}  // namespace hone::commands
