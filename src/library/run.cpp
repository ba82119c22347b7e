#include "hone/run.h"

#include "config/parse.h"
#include "doctor/examiner.h"
#include "doctor/watch/watch.h"
#include "library/plan.h"
#include "ops/machine/host_memory.h"
#include "train/opening/open_run.h"

namespace hone {
namespace {

// Tells each step to the caller.
class Teller final : public train::RunListener {
 public:
  explicit Teller(const std::function<void(const Progress&)>& on_step) : on_step_(on_step) {}
  void on_step(const train::StepFacts& facts, std::int64_t total_steps) override {
    if (!on_step_) return;
    on_step_({.step = facts.step,
              .total_steps = total_steps,
              .epoch = facts.epoch,
              .loss = facts.loss,
              .grad_norm = facts.grad_norm,
              .learning_rate = facts.learning_rate,
              .seconds = facts.seconds});
  }

 private:
  const std::function<void(const Progress&)>& on_step_;
};

}  // namespace

RunEnd run(const std::string& method, const std::vector<std::string>& arguments,
           const std::function<void(const Progress&)>& on_step, const std::atomic<bool>* stop) {
  ops::use_host_memory();
  const config::Plan plan = library::plan_of(method, arguments);
  const std::atomic<bool> never = false;
  Teller teller(on_step);
  doctor::Watch watch(teller, plan.on_fault);
  const std::unique_ptr<train::OpenedRun> opened = train::open_run(plan, watch);
  doctor::Examiner examiner({.program = {}, .cache_dir = {}}, watch);
  doctor::Guards guards;
  guards.add(watch.guard());
  if (!plan.skip_doctor) guards.add(examiner);
  const train::LoopResult result = train::begin_run(*opened, watch, stop == nullptr ? never : *stop, &guards);
  return {.step = result.step, .interrupted = result.interrupted, .faulty = result.paused};
}

}  // namespace hone
