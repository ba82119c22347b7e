#include "train/open_run.h"

#include "base/error.h"

namespace hone::train {

std::unique_ptr<OpenedRun> open_run(const config::Plan& plan, RunListener& listener) {
  switch (plan.method) {
    case config::Method::kSft:
      return open_sft(plan, listener);
    case config::Method::kGrpo:
    case config::Method::kRloo:
      return open_policy(plan, listener);
    case config::Method::kDpo:
      return open_dpo(plan, listener);
    case config::Method::kOnlineDpo:
      return open_online_dpo(plan, listener);
    case config::Method::kReward:
      return open_reward_model(plan, listener);
    case config::Method::kKto:
      return open_kto(plan, listener);
  }
  throw base::InternalError({.where = "open_run", .expected = "a method", .found = "none of them"});
}

LoopResult begin_run(OpenedRun& run, RunListener& listener, const std::atomic<bool>& stop_requested,
                     RunGuard* guard) {
  run.place.open(run.plan);
  run.opened();
  listener.started(run.start);
  if (guard != nullptr) guard->before_first_step(run);
  const LoopResult result = run_loop({.plan = run.plan,
                                      .adapter = *run.adapter,
                                      .method = *run.method,
                                      .tokenizer = run.text->tokenizer,
                                      .listener = listener,
                                      .stop_requested = stop_requested,
                                      .optimizer = run.standing->optimizer,
                                      .state = run.standing->state,
                                      .planned_memory = run.start.memory.total,
                                      .guard = guard});
  listener.finished(run.plan.output_dir, result.interrupted, result.step);
  return result;
}

}  // namespace hone::train
