#include "train/open_run.h"

#include "base/memory_peak.h"
#include "parallel/turns.h"
#include "train/methods/methods.h"
#include "train/same_run.h"

namespace hone::train {

std::unique_ptr<OpenedRun> open_run(const config::Plan& plan, RunListener& listener) {
  return method_row(plan.method).open(plan, listener);
}

LoopResult begin_run(OpenedRun& run, RunListener& listener, const std::atomic<bool>& stop_requested,
                     RunGuard* guard, parallel::Ranks* ranks) {
  parallel::OneRank alone;
  parallel::Ranks& all = ranks == nullptr ? alone : *ranks;
  require_same_run(all, run);
  const auto begin = [&] {
    if (!all.leads()) return;
    run.directory.open(run.plan);
    listener.on_start(run.start);
    if (guard != nullptr) guard->before_first_step(run);
  };
  parallel::all_or_none(all, begin, "start of the run");
  base::reset_memory_peak();  // of the run alone, which the plan is compared with
  const LoopResult result = run_loop({.plan = run.plan,
                                      .adapter = *run.adapter,
                                      .method = *run.method,
                                      .tokenizer = run.text->tokenizer,
                                      .listener = listener,
                                      .stop_requested = stop_requested,
                                      .optimizer = run.resume_state->optimizer,
                                      .state = run.resume_state->state,
                                      .planned_memory = run.start.memory.total,
                                      .guard = guard,
                                      .sampler = run.sampler.get(),
                                      .ranks = ranks,
                                      .layer_steps = run.start.memory.layer_steps ? &*run.model : nullptr});
  listener.on_finish(run.plan.output_dir, result.interrupted, result.step);
  return result;
}

}  // namespace hone::train
