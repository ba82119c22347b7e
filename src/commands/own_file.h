// Another trainer's file, for commands that take a run of hone's own.
#pragma once

#include <optional>

#include "base/files/scratch_folder.h"
#include "config/commands/doctor_plan.h"

namespace hone::commands {

// Where asked.config is another trainer's file: hone's own file of the run, in a folder of its own until this goes,
// stands in its place in asked.arguments, and asked.method is the run's. What is unknown is printed, to stderr where
// the command prints JSON. UserError for a run that holds what hone refuses, and with --fix. Nothing for other files.
class OwnFile {
 public:
  explicit OwnFile(config::DoctorPlan& asked);

 private:
  std::optional<base::ScratchFolder> folder_;
};

}  // namespace hone::commands
