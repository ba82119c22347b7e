// The plan of hone gpu-check.
#pragma once

#include <string>
#include <vector>

#include "config/option_table.h"

namespace hone::config {

struct GpuCheckPlan {
  std::string device = "cuda";                  // "cuda" or "cuda:N"
  std::string output = "hone-gpu-check.jsonl";  // lines are appended
  std::vector<std::string> stages;              // empty: all
};

// hone gpu-check [--device cuda:N] [--output FILE] [--stages NAME ...]. UserError for a device that is no GPU.
GpuCheckPlan parse_gpu_check(const std::vector<std::string>& arguments);

const Schema& gpu_check_schema();

}  // namespace hone::config
