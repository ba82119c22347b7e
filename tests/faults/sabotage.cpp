// sabotage NAME METHOD --config run.yaml: opens a run as hone does, breaks it by hand in a way that hone
// itself excludes, and hands it to the doctor. Prints what `hone doctor --json` prints, and ends as it does.
// A fault of a part that can be exchanged (the method, the optimizer, the pass over the model) is put into
// that part; the doctor is the real one.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

#include "base/error.h"
#include "config/commands/doctor_plan.h"
#include "config/parse.h"
#include "doctor/examination.h"
#include "doctor/probes/gradient_reach.h"
#include "doctor/probes/loss_identities.h"
#include "doctor/probes/probe_state.h"
#include "doctor/watch/watch.h"
#include "learn/optimizer.h"
#include "report/terminal/verdict_lines.h"
#include "train/opening/memory_inputs.h"
#include "train/opening/open_run.h"
#include "train/passes/scored_pass.h"

namespace hone {

namespace {

using doctor::Verdicts;
using train::OpenedRun;
using train::Rehearsal;
using train::RehearsalRequest;

// A method that does what another one does; what is broken overrides it.
class Wrapped : public train::TrainingMethod {
 public:
  Wrapped(std::unique_ptr<train::TrainingMethod> inner, OpenedRun& run)
      : inner_(std::move(inner)), run_(run) {}
  train::StepLoss backward(std::int64_t step) override { return inner_->backward(step); }
  void on_step(std::int64_t step) override { inner_->on_step(step); }
  bool has_evaluation() const override { return inner_->has_evaluation(); }
  train::EvalFacts evaluate() override { return inner_->evaluate(); }
  std::int64_t steps_per_epoch() const override { return inner_->steps_per_epoch(); }
  std::int64_t total_steps() const override { return inner_->total_steps(); }
  double epoch_after(std::int64_t step) const override { return inner_->epoch_after(step); }
  train::StateFiles state_files() const override { return inner_->state_files(); }
  Rehearsal rehearse(const RehearsalRequest& request) override { return inner_->rehearse(request); }

 protected:
  double nll(bool adapters_on) const {
    return inner_
        ->rehearse({.max_tokens = 64, .backward = false, .training = false, .adapters_on = adapters_on})
        .nll;
  }
  std::unique_ptr<train::TrainingMethod> inner_;
  OpenedRun& run_;
};

// Gradients of tensors whose name holds `part` are lost.
class LosesGradients final : public Wrapped {
 public:
  LosesGradients(std::unique_ptr<train::TrainingMethod> inner, OpenedRun& run, std::string part)
      : Wrapped(std::move(inner), run), part_(std::move(part)) {}
  train::StepLoss backward(std::int64_t step) override {
    const train::StepLoss out = inner_->backward(step);
    lose();
    return out;
  }
  Rehearsal rehearse(const RehearsalRequest& request) override {
    const Rehearsal out = inner_->rehearse(request);
    lose();
    return out;
  }

 private:
  void lose() const {
    for (const auto& tensor : run_.adapter->tensors()) {
      if (tensor.name.find(part_) != std::string::npos) tensor.value.grad().zero_();
    }
  }
  std::string part_;
};

// Each pass moves one weight of the base, as merging an adapter in and out does.
class DriftingBase final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Rehearsal rehearse(const RehearsalRequest& request) override {
    const at::NoGradGuard no_grad;
    const model::DecoderLayer& layer = run_.model->layers().front();
    const at::Tensor norm =
        layer.norms[model::NormPlace::kBeforeAttention];  // a handle: the values are the model's
    norm.view({-1})[0] *= 1.01;
    return inner_->rehearse(request);
  }
};

class WrongSampler final : public Wrapped {
 public:
  enum class Kind { kOff, kOfTheBase, kOfOldWeights };
  WrongSampler(std::unique_ptr<train::TrainingMethod> inner, OpenedRun& run, Kind kind)
      : Wrapped(std::move(inner), run), kind_(kind), began_(run.adapter->flat().clone()), known_(nll(true)) {}
  Rehearsal rehearse(const RehearsalRequest& request) override {
    Rehearsal out = inner_->rehearse(request);
    if (out.sampler_gap && request.adapters_on) *out.sampler_gap += gap();
    return out;
  }

 private:
  // What a sampler with other weights would be off by, on the whole.
  double gap() {
    if (kind_ == Kind::kOff) return 0.4;
    if (kind_ == Kind::kOfTheBase) return std::abs(nll(true) - nll(false));
    // It reads the weights again only after a large change: the small step of an optimizer escapes it.
    const double moved = (run_.adapter->flat() - began_).abs().max().item<double>();
    return moved > 0 && moved <= 2 * std::max(run_.plan.learning_rate, doctor::kPerturbation)
               ? std::max(0.1, std::abs(nll(true) - known_))
               : 0;
  }
  Kind kind_;
  at::Tensor began_;
  double known_;
};

// The loss depends on how often it was asked, which no checkpoint holds.
class HiddenState final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  Rehearsal rehearse(const RehearsalRequest& request) override {
    Rehearsal out = inner_->rehearse(request);
    out.nll *= 1.0 + 0.1 * ++calls_;
    return out;
  }

 private:
  int calls_ = 0;
};

class Leaking final : public Wrapped {
 public:
  using Wrapped::Wrapped;
  train::StepLoss backward(std::int64_t step) override {
    kept_.emplace_back(6 << 20, static_cast<char>(step + 1));
    return inner_->backward(step);
  }

 private:
  std::vector<std::string> kept_;
};

template <typename Broken, typename... More>
void wrap(OpenedRun& run, const More&... more) {
  run.method = std::make_unique<Broken>(std::move(run.method), run, more...);
}

// The model's own tensors, cut loose from the buffer that the optimizer moves.
Verdicts stale_optimizer(OpenedRun& run) {
  for (const auto& tensor : run.adapter->tensors()) tensor.value.set_data(tensor.value.detach().clone());
  return doctor::probe_gradient(run);
}

// What prepare_model_for_kbit_training does to adapters that are there already.
Verdicts frozen_adapter(OpenedRun& run) {
  for (const auto& tensor : run.adapter->tensors()) {
    at::Tensor value = tensor.value;
    value.set_requires_grad(false);
  }
  return doctor::probe_gradient(run);
}

// What a machine with other rates than this one would have measured before step 1.
Verdicts with_rates(OpenedRun& run, double gflops, double limit, double other_gflops) {
  run.start.products = {.kernels = limit > 0 ? "avx2" : "libtorch",
                        .precision = "bf16",
                        .gflops = gflops,
                        .limit = limit,
                        .other_precision = "float32",
                        .other_gflops = other_gflops,
                        .seconds = 0.1};
  return doctor::check_plan(run);
}

Verdicts dropped_update(OpenedRun& run) {
  return doctor::examine_gradient(run, [](learn::Optimizer& optimizer, const at::Tensor& parameters,
                                          const at::Tensor& gradient, double rate) {
    const at::Tensor before = parameters.clone();
    optimizer.step(parameters, gradient, rate);
    const at::NoGradGuard no_grad;
    parameters.slice(0, 0, parameters.numel(), 2).copy_(before.slice(0, 0, before.numel(), 2));
  });
}

train::ScoredFacts pass_of(OpenedRun& run, const data::Batch& batch, double denominator) {
  const train::PassForm form = train::pass_form(run.start.memory);
  const train::RngKey key = {.training = false, .seed = 1};
  return denominator > 0 ? train::score_and_backward(*run.model, batch, key, denominator, form)
                         : train::score_batch(*run.model, batch, key, form);
}

// Segments laid end to end are read as one: the second sees the first.
Verdicts wrong_kernel(OpenedRun& run) {
  return doctor::examine_loss(run, [&run](const data::Batch& batch, double denominator) {
    data::Batch leaky = batch;
    for (std::size_t i = 0; i < leaky.positions.size(); ++i)
      leaky.positions[i] = static_cast<std::int64_t>(i);
    if (leaky.segments.size() > 1) {
      leaky.segments.front().end = leaky.segments.back().end;
      leaky.segments.resize(1);
    }
    return pass_of(run, leaky, denominator);
  });
}

Verdicts unnormalised(OpenedRun& run) {
  return doctor::examine_loss(run, [&run](const data::Batch& batch, double denominator) {
    return pass_of(run, batch, denominator > 0 ? static_cast<double>(train::scored_tokens(batch)) : 0);
  });
}

// What the watch says during the run, until it has named `code` or `most_steps` are done.
class Hears final : public train::RunListener {
 public:
  explicit Hears(std::string code, std::int64_t most_steps)
      : code_(std::move(code)), most_steps_(most_steps) {}
  void on_verdict(const base::Verdict& verdict, std::int64_t) override {
    heard.push_back(verdict);
    if (verdict.code == code_ && verdict.level >= base::Level::kWarn) stop = true;
  }
  void on_step(const train::StepFacts& facts, std::int64_t) override {
    if (facts.step >= most_steps_) stop = true;
  }
  Verdicts heard;
  std::atomic<bool> stop = false;

 private:
  std::string code_;
  std::int64_t most_steps_;
};

Verdicts watched(OpenedRun& run, const std::string& code, std::int64_t most_steps) {
  Hears hears(code, most_steps);
  doctor::Watch watch(hears, run.plan.on_fault);
  try {
    train::begin_run(run, watch, hears.stop, &watch.guard());
  } catch (const base::UserError&) {
    // told as a verdict
  }
  return hears.heard;
}

using Sabotage = std::function<Verdicts(OpenedRun&)>;

const std::map<std::string, Sabotage>& table() {
  static const std::map<std::string, Sabotage> all = {
      {"no_gradient",
       [](OpenedRun& run) {
         wrap<LosesGradients>(run, std::string());
         return doctor::probe_gradient(run);
       }},
      {"no_gradient_below",
       [](OpenedRun& run) {
         wrap<LosesGradients>(run, std::string("layers.0."));
         return doctor::probe_gradient(run);
       }},
      {"stale_optimizer", stale_optimizer},
      {"dropped_update", dropped_update},
      {"frozen_adapter", frozen_adapter},
      {"slow_products", [](OpenedRun& run) { return with_rates(run, 60, 190, 58); }},
      {"slow_precision", [](OpenedRun& run) { return with_rates(run, 4, 0, 90); }},
      {"wrong_kernel", wrong_kernel},
      {"unnormalised", unnormalised},
      {"base_drifts",
       [](OpenedRun& run) {
         wrap<DriftingBase>(run);
         return doctor::probe_gradient(run);
       }},
      {"sampler_off",
       [](OpenedRun& run) {
         wrap<WrongSampler>(run, WrongSampler::Kind::kOff);
         return doctor::probe_sampler(run);
       }},
      {"sampler_of_the_base",
       [](OpenedRun& run) {
         wrap<WrongSampler>(run, WrongSampler::Kind::kOfTheBase);
         return doctor::probe_sampler(run);
       }},
      {"sampler_of_old_weights",
       [](OpenedRun& run) {
         wrap<WrongSampler>(run, WrongSampler::Kind::kOfOldWeights);
         return doctor::probe_sampler(run);
       }},
      {"hidden_state",
       [](OpenedRun& run) {
         wrap<HiddenState>(run);
         return doctor::probe_resume(run);
       }},
      {"memory_creeps",
       [](OpenedRun& run) {
         wrap<Leaking>(run);
         return watched(run, "MEM-02", 90);
       }},
  };
  return all;
}

int run_sabotage(const std::vector<std::string>& words) {
  const auto found = table().find(words[0]);
  base::require(found != table().end(), "sabotage", "one of its own names");
  const config::DoctorPlan asked = config::parse_doctor({words.begin() + 1, words.end()});
  train::RunListener silent;
  const auto run = train::open_run(config::parse_run(asked.method, asked.arguments), silent);
  doctor::ExamPart part{.name = words[0], .verdicts = found->second(*run)};
  for (base::Verdict& one : part.verdicts) {
    if (one.part.empty()) one.part = part.name;
  }
  const base::Json json = report::examination_json({part}, {part.name}, 0, false);
  std::cout << base::dump_json(json, 2) << '\n';
  return json.at("exit").get<int>();
}

}  // namespace

}  // namespace hone

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) return 70;
  try {
    return hone::run_sabotage(words);
  } catch (const std::exception& error) {
    std::cerr << "hone: " << error.what() << '\n';
    return 70;
  }
}
