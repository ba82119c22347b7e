// The examination of an opened run, in the order of the data: config, hardware, data, gradient, numerics,
// reward, rollout, budget, files. It leaves the run unchanged, bit for bit. Codes: catalogue.h; verdicts:
// base/verdict.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/verdict.h"
#include "doctor/exam_part.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

enum class Depth {
  kRun,  // before every run: static checks, probes P1 to P4, P7 to P9, P11, P13 to P15; at most 20 s for 0.5B on 2 cores
  kDeep,  // `hone doctor --deep`: also P5, P6, P10, P12, and rewards called with junk
};

struct ExamOptions {
  Depth depth = Depth::kRun;
  // hone itself, for probes that run in a child process; empty: these probes are not run
  base::fs::path program;
  base::fs::path cache_dir;  // cached results by machine and shape; empty: no cache
  // Parts that run the model are taken from an earlier run of the same plan, model, data and build (exam_cache.h).
  bool reuse = false;
};

using Verdicts = std::vector<base::Verdict>;

struct Examination {
  std::vector<ExamPart> parts;
  double seconds = 0;
  bool failed() const;
  bool warned() const;
  std::vector<const base::Verdict*> failures() const;
};

// The names of the parts of examine(), in order; `samples`: a method with rollouts. They are those of a run
// on the CPU without tools.
std::vector<std::string> exam_parts(bool samples, Depth depth);

// `on_part` is called after each part; may be empty. Parts that are blocked by a failure are left out.
Examination examine(const train::RunView& run, const ExamOptions& options,
                    const std::function<void(const ExamPart&)>& on_part = {});

// ---- the parts, one file each (P1 to P13: docs/design.md, Probes). None throws for a fault that it finds.
Verdicts check_plan(const train::RunView& run);                                  // config: only options
Verdicts check_data(const train::RunView& run);                                  // P4
Verdicts probe_hardware(const train::RunView& run, const ExamOptions& options);  // P11
Verdicts probe_device(const train::RunView& run);    // P13: of a run that is not on the CPU
Verdicts probe_gradient(const train::RunView& run);  // P1, P2: two steps on a copy
Verdicts probe_loss(const train::RunView& run);      // P3
Verdicts probe_sampler(const train::RunView& run);   // P7
bool has_rewards(const train::RunView& run);         // that P8 can call: of its training or of an evaluation
Verdicts probe_reward(const train::RunView& run, Depth depth);  // P8
bool has_tools(const train::RunView& run);                      // that its model may call
Verdicts probe_tools(const train::RunView& run, Depth depth);   // P14: of a run with tools
Verdicts probe_calls(const train::RunView& run, Depth depth);   // P15: of a run with tools
Verdicts probe_rollout(const train::RunView& run);              // P6, deep
Verdicts probe_budget(const train::RunView& run);               // P9
Verdicts probe_overfit(const train::RunView& run);              // P5, deep
Verdicts probe_round_trip(const train::RunView& run);           // P10, deep
Verdicts probe_resume(const train::RunView& run);               // P12, deep

}  // namespace hone::doctor
