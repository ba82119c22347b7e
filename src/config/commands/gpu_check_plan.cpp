#include "config/commands/gpu_check_plan.h"

#include "base/error.h"
#include "config/placement.h"
#include "config/settings.h"

namespace hone::config {

GpuCheckPlan parse_gpu_check(const std::vector<std::string>& arguments) {
  Settings settings(gpu_check_schema());
  settings.read_arguments(arguments);
  settings.throw_mistakes();
  GpuCheckPlan plan;
  settings.fill(plan);
  if (is_gpu(plan.device)) return plan;
  throw base::UserError({.where = "option device",
                         .expected = "cuda or cuda:N",
                         .found = plan.device,
                         .cause = "the check compares a GPU with the CPU",
                         .fix = "leave device out for the first GPU"});
}

}  // namespace hone::config
