#include "train/open_run.h"

#include "base/error.h"
#include "base/mapped_files.h"
#include "base/memory_peak.h"
#include "base/release_pages.h"
#include "parallel/turns.h"
#include "train/methods/methods.h"
#include "train/optimizer.h"
#include "train/same_run.h"
#include "train/shards.h"

namespace hone::train {

std::unique_ptr<OpenedRun> open_run(const config::Plan& plan, RunListener& listener) {
  std::unique_ptr<OpenedRun> run;
  try {
    run = method_opening(plan.method).open(plan, listener);
  } catch (const base::UserError&) {
    base::require_readable();  // a truncated file's zeros may be what is wrong
    throw;
  }
  base::require_readable();
  return run;
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
  std::optional<Shards> shards;
  const DividedState divided = divided_state(run.plan);
  if (divided.divides()) {
    shards.emplace(all, *run.model, *run.adapter, run.resume_state->optimizer, divided.stage);
  }
  base::return_freed_memory();  // of the opening
  base::reset_memory_peak();    // of the run alone, which the plan is compared with
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
                                      .inputs = &run.inputs,
                                      .ranks = ranks,
                                      .layer_steps = run.start.memory.layer_steps ? &*run.model : nullptr,
                                      .shards = shards ? &*shards : nullptr});
  listener.on_finish(run.plan.output_dir, result.interrupted, result.step);
  return result;
}

}  // namespace hone::train
