#include "config/placement.h"

#include <fmt/format.h>

namespace hone::config {

bool is_gpu(std::string_view device) {
  return device.starts_with("cuda");
}

std::optional<OnlyOnCpu> only_on_cpu(const Plan& plan) {
  if (plan.ranks > 1) {
    return OnlyOnCpu{.found = fmt::format("{} processes", plan.ranks),
                     .why = "the processes of a run add their gradients up on the CPU",
                     .fix = "start one process"};
  }
  if (!plan.use_peft && !plan.offload_folder.empty()) {
    return OnlyOnCpu{.found = fmt::format("offload_folder: {}", plan.offload_folder),
                     .why = "an optimizer's state in a file is stepped by the CPU",
                     .fix = "remove offload_folder"};
  }
  return std::nullopt;
}

void resolve_placement(Settings& settings) {
  if (!settings.flag("use_cpu")) return;
  if (is_gpu(settings.text("device"))) {
    conflict(settings, "device", "device or use_cpu, which is device: cpu",
             fmt::format("{}, and use_cpu: true at {}", settings.text("device"), settings.where("use_cpu")),
             "", "remove one of the two");
  }
  settings.replace("device", "cpu");
}

void finish_placement(const Plan& plan, const Settings& settings) {
  if (!is_gpu(plan.device)) return;
  const std::optional<OnlyOnCpu> held = only_on_cpu(plan);
  if (!held) return;
  conflict(settings, "device", "device: cpu for this run",
           fmt::format("{} with {}", plan.device, held->found), held->why,
           fmt::format("write device: cpu, or {}", held->fix));
}

}  // namespace hone::config
