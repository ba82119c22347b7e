// A script of TRL, Unsloth or transformers that is executed until its trainer's train() (option --run), for
// commands that take a run of hone's own. python/hone/recorded has what stands in the place of trainers and models.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/files/scratch_folder.h"
#include "base/json.h"
#include "config/commands/doctor_plan.h"
#include "python/worker_process.h"

namespace hone::commands {

// Without asked.run nothing is executed. Otherwise the script runs in a child of the user's Python, with limits.
// The options and rows that it has made take its place in asked.config and asked.arguments, and asked.method is
// its trainer's. They lie in a folder of their own, or in asked.keep. The child answers calls of the script's
// reward functions until this goes. What is done is printed, to stderr where the command prints JSON.
//
// UserError: a script that does not reach train(), in the words of its own exception with its line; the time
// limit; a trainer or an argument that hone refuses; no Python, or one without hone's package.
class RecordedScript {
 public:
  explicit RecordedScript(config::DoctorPlan& asked);
  RecordedScript(const RecordedScript&) = delete;
  RecordedScript& operator=(const RecordedScript&) = delete;
  ~RecordedScript();
  // {"trainer": class, "place": its line, "notes": [[line, name, text]]} of a script that was executed; null: none was.
  const base::Json& facts() const { return facts_; }

 private:
  std::optional<base::ScratchFolder> folder_;
  std::unique_ptr<python::WorkerProcess> process_;
  base::Json facts_;
  std::string socket_folder_;  // beside ours; empty: there is none
};

}  // namespace hone::commands
