// A whole training run, as the program's commands do it: the same options, checks, files and checkpoints.
//
//   hone::run("grpo", {"--config", "run.yaml"},
//             [](const hone::Progress& now) { std::cout << now.step << ' ' << now.loss << '\n'; });
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hone {

struct Progress {
  std::int64_t step = 0, total_steps = 0;  // 1-based, after the step
  double epoch = 0, loss = 0, grad_norm = 0, learning_rate = 0, seconds = 0;
};

struct RunEnd {
  std::int64_t step = 0;  // the last one that was done
  // `stop` was set, or a fault paused the run (on_fault): a checkpoint is there to continue from.
  bool interrupted = false;
  // A fault paused it, or was found in its last step; `hone explain OUTPUT_DIR` says which.
  bool faulty = false;
};

// `method`: "sft", "dpo", "kto", "cpo", "orpo", "reward", "grpo", "rloo", "online-dpo", "distill".
// `arguments`: what would follow `hone METHOD`. The run is examined before its first step; a failure is a UserError, and then
// nothing is trained. Set `stop` to end after the current step. It prints nothing, sends nothing, downloads
// nothing, and writes no page.
RunEnd run(const std::string& method, const std::vector<std::string>& arguments,
           const std::function<void(const Progress&)>& on_step = {}, const std::atomic<bool>* stop = nullptr);

}  // namespace hone
