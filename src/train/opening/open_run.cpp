#include "train/opening/open_run.h"

#include "base/error.h"
#include "base/files/mapped_files.h"
#include "base/files/release_pages.h"
#include "base/process/memory_peak.h"
#include "parallel/turns.h"
#include "train/loop/step_strategy.h"
#include "train/methods/methods.h"
#include "train/opening/record_opening.h"
#include "train/opening/run_view.h"
#include "train/opening/same_run.h"
#include "train/opening/sampling_opening.h"

namespace hone::train {

RunView::RunView(OpenedRun& run)
    : plan(run.plan),
      directory(run.directory),
      source(run.source.get()),
      text(&*run.text),
      model(&*run.model),
      adapter(&*run.adapter),
      method(run.method.get()),
      resume_state(&*run.resume_state),
      sampler(run.sampler.get()),
      start(run.start),
      data(run.data) {}

std::unique_ptr<OpenedRun> open_run(const config::Plan& plan, RunListener& listener) {
  std::unique_ptr<OpenedRun> run;
  try {
    const MethodOpening& method = method_opening(plan.method);
    run = method.records != nullptr ? open_records(plan, *method.records)
                                    : open_sampling(plan, listener, *method.sampling);
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
  learn::Optimizer& optimizer = run.resume_state->optimizer;
  const std::unique_ptr<StepStrategy> steps = make_step_strategy(run, optimizer, all);
  base::return_freed_memory();  // of the opening
  base::reset_memory_peak();    // of the run alone, which the plan is compared with
  const LoopResult result = run_loop({.plan = run.plan,
                                      .adapter = *run.adapter,
                                      .method = *run.method,
                                      .tokenizer = run.text->tokenizer,
                                      .listener = listener,
                                      .stop_requested = stop_requested,
                                      .optimizer = optimizer,
                                      .steps = *steps,
                                      .state = run.resume_state->state,
                                      .ranks = all,
                                      .planned_memory = run.start.memory.total,
                                      .guard = guard,
                                      .sampler = run.sampler.get(),
                                      .reference = run.moving_reference.get(),
                                      .inputs = &run.inputs});
  listener.on_finish(run.plan.output_dir, result.interrupted, result.step);
  return result;
}

}  // namespace hone::train
