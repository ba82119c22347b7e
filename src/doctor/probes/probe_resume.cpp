// Probe P12 (docs/design.md): a resumed run is the same run.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <vector>

#include "base/files/scratch_folder.h"
#include "doctor/examination.h"
#include "doctor/excluded.h"
#include "doctor/probes/probe_state.h"
#include "doctor/probes/round_trip.h"
#include "model/files/weight_source.h"
#include "train/loop/optimizer.h"
#include "train/loop/step_strategy.h"
#include "train/saves/run_folder.h"

namespace hone::doctor {

namespace {

using base::Level;

struct Stand {
  at::Tensor parameters;
  std::vector<learn::StateTensor> state;
  double nll = 0;
};

// What the checkpoint has for Adapter::flat().
at::Tensor saved_values(const train::RunView& run, const base::fs::path& folder) {
  if (!run.adapter->is_full()) {
    const StateGuard attached(run);
    return adapters::Adapter::load(*run.model, folder).flat().clone();
  }
  const std::unique_ptr<model::WeightSource> saved = model::open_hf_folder(folder);
  std::vector<at::Tensor> parts;
  for (const adapters::TrainableTensor& tensor : run.adapter->tensors())
    parts.push_back(saved->read(tensor.name, at::kFloat).flatten());
  return at::cat(parts);
}

// One optimizer step on rehearsal `index`, as the loop makes it.
Stand step(const train::RunView& run, learn::Optimizer& optimizer, std::int64_t index) {
  const std::int64_t tokens = std::min<std::int64_t>(64, rehearsal_tokens(*run.model));
  Stand out;
  const auto backward = [&]() -> train::StepLoss {
    const train::Rehearsal found = run.method->rehearse({.index = index, .max_tokens = tokens});
    out.nll = found.nll;
    return {.loss = found.loss};
  };
  train::WholeStep(*run.adapter, run.plan.max_grad_norm, optimizer)
      .step({.backward = backward}, run.plan.learning_rate);
  out.parameters = run.adapter->flat().clone();
  out.state = optimizer.state();
  for (learn::StateTensor& one : out.state) one.value = one.value.clone();
  return out;
}

std::string difference(const Stand& right, const Stand& other) {
  std::string out;
  const auto compare = [&out](const at::Tensor& a, const at::Tensor& b, const std::string& name) {
    if (a.equal(b)) return;
    const auto different = a.ne(b).sum().item<std::int64_t>();
    out += (out.empty() ? "" : ", ") + count_of(different, a.numel()) + " elements of " + name;
  };
  compare(right.parameters, other.parameters, "the adapter");
  for (std::size_t k = 0; k < right.state.size(); ++k)
    compare(right.state[k].value, other.state[k].value, right.state[k].name);
  if (right.nll != other.nll) out += (out.empty() ? "" : ", ") + std::string("the loss");
  return out;
}

}  // namespace

Verdicts examine_resume(const train::RunView& run, const CheckpointReader& read) {
  if (run.adapter->initial_values().defined()) {
    return {{.code = "CKPT-05",
             .level = base::Level::kNote,
             .what = "resuming was not tested: it would subtract PiSSA's directions from this base a second "
                     "time"}};
  }
  const StateGuard guard(run);
  const base::ScratchFolder scratch("doctor");
  learn::Optimizer optimizer = train::make_optimizer(run.plan, *run.adapter);
  step(run, optimizer, 0);
  train::RunState state = run.resume_state->state;
  state.step = 1;
  state.num_tokens += 17;
  const train::TrainerStateFacts facts = {.max_steps = run.start.total_steps};
  train::save_checkpoint(scratch.path(), {.adapter = *run.adapter,
                                          .optimizer = optimizer,
                                          .state = state,
                                          .facts = facts,
                                          .plan = run.plan,
                                          .tokenizer = run.text->tokenizer,
                                          .method_files = run.method->state_files()});
  const Stand whole = step(run, optimizer, 1);

  const base::fs::path folder = train::checkpoint_path(scratch.path(), 1);
  learn::Optimizer read_back = train::make_optimizer(run.plan, *run.adapter);
  const train::LoadedCheckpoint loaded = read(folder, read_back, run.plan);
  const at::Tensor values = saved_values(run, folder);
  {  // into the run's own buffers: the method holds on to them
    const at::NoGradGuard no_grad;
    run.adapter->flat().copy_(values);
  }
  const Stand resumed = step(run, read_back, 1);

  std::string differs = difference(whole, resumed);
  if (loaded.state.to_json() != state.to_json())
    differs += (differs.empty() ? "" : ", ") + std::string("the position in the data");
  if (differs.empty()) {
    return {{.code = "CKPT-05",
             .what = "step 2 after a checkpoint of step 1 equals the uninterrupted step 2, bit for bit",
             .evidence = grouped(whole.parameters.numel()) +
                         " parameters, the optimizer's state, the loss, the position; "
                         "the order of the data is a function of the step"}};
  }
  const Excluded excluded = Excluded()
                                .add("your options and data", "both steps have the same")
                                .add("a changed file", "it was just written");
  return {{.code = "CKPT-05",
           .level = Level::kFail,
           .what = "a resumed run would differ from an uninterrupted one",
           .evidence = "after one more step these differ: " + differs,
           .cause = "part of the state is not in the checkpoint, or is not read back",
           .not_this = excluded.text(),
           .fix = report_fix(excluded, "do not interrupt the run"),
           .cost = "a jump in the loss at every resume"}};
}

Verdicts probe_resume(const train::RunView& run) {
  return examine_resume(run, train::load_checkpoint);
}

}  // namespace hone::doctor
