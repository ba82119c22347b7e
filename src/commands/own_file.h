// Another trainer's file, for commands that take a run of hone's own.
#pragma once

#include <optional>

#include "base/files/scratch_folder.h"
#include "config/commands/doctor_plan.h"

namespace hone::commands {

// Puts hone's own file of the run, where asked.config is another trainer's file, in its place in asked.arguments, and
// sets asked.method. The file lies in a folder of its own until this goes. What is unknown is printed, to stderr where
// the command prints JSON. UserError for a run that holds what hone refuses, and with --fix. Other files stay.
class OwnFile {
 public:
  explicit OwnFile(config::DoctorPlan& asked);

 private:
  std::optional<base::ScratchFolder> folder_;
};

}  // namespace hone::commands
