// The user's function that makes completions, TRL's rollout_func, in a Python process of its own: `function(prompts, trainer)` -> a dict
// with prompt_ids, completion_ids and logprobs, perhaps env_mask, and columns for reward functions.
//
// While it runs it may ask for completions of the model as it is now, by trainer.generate_rollout_completions(prompts): each such request
// is handed to the caller, which answers it. The function has no limit of time, as in TRL; what it prints is in printed().
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "python/worker_process.h"

namespace hone::tools {

struct RolloutHostOptions {
  std::string python;  // empty: base/process/active_python.h
  std::string word;    // "rollout.py:function" or "package.module:function" (tool_spec.h)
};

class RolloutHost {
 public:
  // The function makes this request while it runs, and gets the answer: {"prompts", "overrides"} ->
  // {"completions": [...]}. A UserError becomes an exception in the function.
  using Complete = std::function<base::Json(const base::Json& request)>;

  // Starts the process and imports the function. UserError: what parse_tool_word refuses, a module that does not import, no such name, a
  // function that does not take two arguments.
  explicit RolloutHost(RolloutHostOptions options);

  // Calls it. `about`: {"state", "training", "options", "model", "vocab_size", "positions"} for the object that it gets as trainer. The
  // result has a list for each prompt: {"prompt_ids", "completion_ids", "logprobs" or null, "env_mask" or null, "columns": {name: values}}.
  // UserError with Python's traceback for what it raises, and for what it returns that is no rollout; StopCut when the step is to be cut
  // short (base/process/stop_request.h). After an error of the process itself, it is started again for the next call.
  base::Json call(const base::Json& prompts, const base::Json& about, const Complete& complete);

  std::string printed();  // what it has printed since the last call of this

 private:
  void start();
  std::string receive(const char* doing);
  [[noreturn]] void ended(const char* doing, const std::string& how) const;
  std::string where() const { return "rollout " + options_.word; }

  RolloutHostOptions options_;
  std::unique_ptr<python::WorkerProcess> host_;
};

}  // namespace hone::tools
