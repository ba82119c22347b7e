// place() decides where a command's model goes, by its option `device`. It is called before a model is read and before
// anything asks libtorch about CUDA, which it answers once and for all.
#pragma once

#include <string>
#include <vector>

#include "config/plan.h"

namespace hone::commands {

// Loads CUDA where `device` asks for it (ops/machine/cuda.h): UserError where it cannot be had. `auto` becomes cuda:0 or
// cpu, and a line of `notes` says which and why.
void place(std::string& device, std::vector<std::string>& notes);

// The same for a run; `auto` is the CPU too where a part of the run is only there (config/placement.h).
void place(config::Plan& plan);

// For a command without a start page: a line of `notes` says which card it is, and what nobody has tried yet.
void place_and_tell(std::string& device, std::vector<std::string>& notes);

}  // namespace hone::commands
