// Where a run is: the option `device`, beside what only the CPU has today.
#pragma once

#include <optional>
#include <string>

#include "config/plan.h"
#include "config/settings.h"

namespace hone::config {

inline constexpr std::string_view kAutoDevice = "auto";

// "cuda", "cuda:1"
bool is_gpu(std::string_view device);

// A part of the plan that holds a run on the CPU.
struct OnlyOnCpu {
  std::string found;  // "2 processes", "offload_folder"
  std::string why;    // a sentence
  std::string fix;    // how to do without it
};
std::optional<OnlyOnCpu> only_on_cpu(const Plan& plan);  // empty: it may be on a GPU

// `use_cpu` becomes `device: cpu`. UserError where `device` names a GPU too.
void resolve_placement(Settings& settings);
// UserError for a GPU with what is only_on_cpu(). `auto` is the CPU then, which commands/ranks/placement.h tells.
void finish_placement(const Plan& plan, const Settings& settings);

}  // namespace hone::config
