// The one thread that computes: it decodes all requests together (rollout/engine.h), and between two steps
// makes passes of other works: training, scores of prompts.
//
//   Scheduler scheduler(model, {});
//   const JobId id = scheduler.submit({.request = request, .on_token = show, .on_error = tell});
//   scheduler.cancel(id);
//
// All functions may be called from any thread and do not wait for a step, stop() excepted. Callbacks run on
// the compute thread, in order: they must be short, and must not throw.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>

#include "model/causal_lm.h"
#include "ops/machine/step_graphs.h"
#include "rollout/engine.h"

namespace hone::serve {

using JobId = std::uint64_t;  // 1, 2, 3, ... of a scheduler

// Holds what a request had of the engine, beside its completion.
struct SampleFacts {
  std::int64_t cached = 0;   // tokens of the prompt that were not computed, since their keys were there
  double queue_seconds = 0;  // from submit() to the first step that it was in
  double first_seconds = 0;  // from submit() to its first token
};

struct SampleJob {
  rollout::Request request;  // of one sample
  // The completion so far, after each step that gave it tokens: one, with drafts one or more. `ended`: it is whole, also after cancel(). Exactly one call has
  // `ended`, or on_error is called.
  std::function<void(const rollout::Completion&, const SampleFacts&, bool ended)> on_token;
  // UserError of Engine::add() or advance(), or any other exception. The last call.
  std::function<void(std::exception_ptr)> on_error;
};

// Something else to compute, in passes.
class Work {
 public:
  virtual ~Work() = default;
  // One pass; true: there is more to do. What goes wrong it tells by itself: an exception ends the work, and
  // is lost.
  virtual bool step() = 0;
};

struct SchedulerOptions {
  // The scheduler has draft_facts of its own (SchedulerFacts::drafts).
  rollout::EngineOptions engine = {.batch_size = 64, .prefill_tokens = 128};
  double training_share = 0.5;  // of the time, for works while requests decode; above 0, below 1
  int threads = 0;              // of kernels; 0: at::get_num_threads() of the caller
};

struct SchedulerFacts {
  rollout::EngineFacts engine;
  std::uint64_t jobs = 0, works = 0;                // submitted and not ended
  std::uint64_t sampled = 0, cached = 0, read = 0;  // tokens since the start: drawn; of prompts, kept and all
  double decode_seconds = 0, work_seconds = 0;      // spent since the start
  std::uint64_t decode_steps = 0, work_steps = 0;
  rollout::DraftFacts drafts;
  ops::StepGraphFacts graphs;  // of the process
};

class Scheduler {
 public:
  // The model must outlive it. It must not change but by a Work, which calls lose_keys() then.
  Scheduler(const model::CausalLm& model, SchedulerOptions options);
  ~Scheduler();  // stop()
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  JobId submit(SampleJob job);
  // It ends at the next step as cancelled (FinishReason::kCancelled); nothing happens to one that has ended.
  void cancel(JobId id);
  // Works of a queue run one after another, in the order of their submission; queues take turns, a pass each.
  // Queue 0 is that of scores: each of its works is short.
  void submit(std::unique_ptr<Work> work, std::uint64_t queue);
  // On the compute thread, between two steps, in order.
  void run_soon(std::function<void()> task);
  // Engine::lose_keys(), for the compute thread: after weights that requests read have changed.
  void lose_keys();

  SchedulerFacts facts() const;  // of the last step
  // Finishes the step that is being made, cancels all jobs (each has its last call) and drops all works.
  // Nothing is taken after it: a job's on_error is called at once.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hone::serve
