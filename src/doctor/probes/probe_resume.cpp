// Probe P12 (docs/design.md): a resumed run is the same run.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "doctor/examination.h"
#include "doctor/probes/probe_state.h"
#include "doctor/probes/round_trip.h"
#include "train/optimizer.h"
#include "train/run_folder.h"

namespace hone::doctor {

namespace {

using base::Level;

struct Stand {
  at::Tensor parameters, m, v;
  double nll = 0;
};

// One optimizer step on rehearsal `index`, as the loop makes it.
Stand step(train::OpenedRun& run, learn::AdamWState& moments, std::int64_t index) {
  adapters::Adapter& adapter = *run.adapter;
  adapter.zero_gradient();
  const std::int64_t tokens = std::min<std::int64_t>(64, rehearsal_tokens(*run.model));
  const train::Rehearsal found = run.method->rehearse({.index = index, .max_tokens = tokens});
  learn::clip_gradient(adapter.flat_gradient(), run.plan.max_grad_norm);
  learn::adamw_step(adapter.flat(), adapter.flat_gradient(), moments, train::adamw_options(run.plan),
                    run.plan.learning_rate);
  return {adapter.flat().clone(), moments.m.clone(), moments.v.clone(), found.nll};
}

std::string difference(const Stand& right, const Stand& other) {
  std::string out;
  const auto compare = [&out](const at::Tensor& a, const at::Tensor& b, const std::string& name) {
    if (a.equal(b)) return;
    const auto different = a.ne(b).sum().item<std::int64_t>();
    out += (out.empty() ? "" : ", ") + count_of(different, a.numel()) + " elements of " + name;
  };
  compare(right.parameters, other.parameters, "the adapter");
  compare(right.m, other.m, "exp_avg");
  compare(right.v, other.v, "exp_avg_sq");
  if (right.nll != other.nll) out += (out.empty() ? "" : ", ") + std::string("the loss");
  return out;
}

}  // namespace

Verdicts examine_resume(train::OpenedRun& run, const CheckpointReader& read) {
  if (run.adapter->initial_values().defined()) {
    return {{.code = "CKPT-05",
             .level = base::Level::kNote,
             .what = "resuming was not tested: it would subtract PiSSA's directions from this base a second "
                     "time"}};
  }
  const StateGuard guard(run);
  const ScratchFolder scratch;
  learn::AdamWState moments = learn::AdamWState::zeros_like(run.adapter->flat());
  step(run, moments, 0);
  train::RunState state = run.resume_state->state;
  state.step = 1;
  state.num_tokens += 17;
  const train::TrainerStateFacts facts = {.max_steps = run.start.total_steps};
  train::save_checkpoint(scratch.path(), {.adapter = *run.adapter,
                                          .optimizer = moments,
                                          .state = state,
                                          .facts = facts,
                                          .plan = run.plan,
                                          .tokenizer = run.text->tokenizer,
                                          .method_files = run.method->state_files()});
  const Stand whole = step(run, moments, 1);

  const base::fs::path folder = train::checkpoint_path(scratch.path(), 1);
  train::LoadedCheckpoint loaded = read(folder, run.adapter->flat().numel(), run.plan);
  at::Tensor values;
  {
    const StateGuard attached(run);
    values = adapters::Adapter::load(*run.model, folder).flat().clone();
  }
  {  // into the run's own buffers: the method holds on to them
    const at::NoGradGuard no_grad;
    run.adapter->flat().copy_(values);
  }
  const Stand resumed = step(run, loaded.optimizer, 1);

  std::string differs = difference(whole, resumed);
  if (loaded.state.to_json() != state.to_json())
    differs += (differs.empty() ? "" : ", ") + std::string("the position in the data");
  if (differs.empty()) {
    return {{.code = "CKPT-05",
             .what = "step 2 after a checkpoint of step 1 equals the uninterrupted step 2, bit for bit",
             .evidence = grouped(whole.parameters.numel()) +
                         " parameters, both moments, the loss, the position; "
                         "the order of the data is a function of the step"}};
  }
  return {{.code = "CKPT-05",
           .level = Level::kFail,
           .what = "a resumed run would differ from an uninterrupted one",
           .evidence = "after one more step these differ: " + differs,
           .cause = "part of the state is not in the checkpoint, or is not read back",
           .fix = "please report this with `hone env`; until then do not interrupt the run",
           .cost = "a jump in the loss at every resume"}};
}

Verdicts probe_resume(train::OpenedRun& run) {
  return examine_resume(run, train::load_checkpoint);
}

}  // namespace hone::doctor
