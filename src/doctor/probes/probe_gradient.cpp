// Probes P1 and P2 (docs/design.md): gradient and update reach.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/strings/plural.h"
#include "doctor/checks/check_parts.h"
#include "doctor/examination.h"
#include "doctor/excluded.h"
#include "doctor/probes/gradient_reach.h"
#include "doctor/probes/probe_state.h"
#include "doctor/probes/zero_gradient.h"
#include "doctor/watch/tensor_watch.h"
#include "train/loop/optimizer.h"
#include "train/loop/step_strategy.h"
#include "train/methods/methods.h"

namespace hone::doctor {

namespace {

using base::Level;
using base::Verdict;

constexpr int kRehearsalSteps = 2;
constexpr int kMaxSteps = 5;
constexpr double kSmallestUpdate = 1e-6, kLargestUpdate = 1e-2;  // |dW| / |W| a step (NUM-08)
constexpr double kStoredFail = 0.5, kStoredWarn = 0.9;           // NUM-01
constexpr std::int64_t kCopies =
    6;  // fp32 copies of a detailed tensor: before, intended, and fp64 for a while
constexpr double kHalfUlp = 1.0 / (1 << 24);  // of fp32, relative
constexpr double kTurnedSigns = 0.05;         // the same of an update that is a sign: of sums near 0
constexpr double kArithmetic = 1e-3;          // what fp32 may make of the update's formula, relative

// What one trainable tensor has shown.
struct Reach {
  const adapters::TrainableTensor* tensor = nullptr;
  std::int64_t offset = 0;        // in the flat buffers
  bool detailed = true;           // its values are looked at one by one (exam_memory.h)
  std::uint64_t before = 0;       // hash of what the model read at the start
  int first = -1;                 // step of its first gradient that was not 0
  std::uint64_t flat_before = 0;  // ... of the optimizer's buffer
  at::Tensor earlier;             // detailed: its values before the last step, fp32
};

// Of one group of tensors (A or B), over the last step: the part of the intended update that was stored.
struct Stored {
  double product = 0, intended = 0;
  double share() const { return intended > 0 ? product / intended : 1; }
};

class GradientProbe {
 public:
  GradientProbe(const train::RunView& run, const OptimizerStep& take_step)
      : run_(run), adapter_(*run.adapter), lent_(run), optimizer_(lent_.optimizer()), take_step_(take_step) {}

  Verdicts run() {
    if (!base_is_finite() || !adapter_is_finite()) return std::move(out_);
    count_trainable();
    if (run_.plan.learning_rate == 0) {
      out_.push_back({.code = "NUM-08",
                      .level = Level::kFail,
                      .what = "learning_rate is 0: no step moves anything",
                      .evidence = "peak learning rate 0",
                      .fix = "learning_rate: " + number(train::method_opening(run_.plan.method).rates.usual) +
                             " is usual with adapters",
                      .cost = "the whole run"});
      return std::move(out_);
    }
    StateGuard guard(run_);
    guard_ = &guard;
    prepare();
    if (!rehearse()) return std::move(out_);
    judge_gradients();
    judge_bits();
    judge_stored();
    judge_size();
    judge_base();
    return std::move(out_);
  }

 private:
  void say(std::string code, Level level, std::string what, std::string evidence = {}) {
    out_.push_back(
        {.code = std::move(code), .level = level, .what = std::move(what), .evidence = std::move(evidence)});
  }

  // A NaN in a weight file is named before any pass meets it.
  bool base_is_finite() {
    print_ = base_fingerprint(*run_.model);
    if (std::all_of(print_.begin(), print_.end(), [](const PartFingerprint& p) { return p.finite; }))
      return true;
    out_.push_back({.code = "NUM-02",
                    .level = Level::kFail,
                    .what = "the base model has values that are not finite",
                    .evidence = first_bad_value(*run_.model),
                    .cause = "the weight file is damaged, or was written by a run that diverged",
                    .not_this = "your data, the learning rate or the adapter: no step has run yet",
                    .fix = "download the model again, or use an earlier checkpoint of it",
                    .cost = "every step would give NaN"});
    return false;
  }

  bool adapter_is_finite() {
    if (adapter_.flat().isfinite().all().item<bool>()) return true;
    std::string first;
    for (const auto& tensor : adapter_.tensors()) {
      if (first.empty() && !tensor.value.isfinite().all().item<bool>()) first = tensor.name;
    }
    out_.push_back({.code = "NUM-02",
                    .level = Level::kFail,
                    .what = "the adapter to be continued has values that are not finite",
                    .evidence = "first in " + first,
                    .cause = "the run that wrote it diverged",
                    .fix = "use an earlier checkpoint",
                    .cost = "every step would give NaN"});
    return false;
  }

  void count_trainable() {
    std::int64_t expected = 0, found = 0, modules = 0, trainable = 0;
    for (const ops::Linear* linear : std::as_const(*run_.model).linears_and_head()) {
      if (!linear->lora) continue;
      modules += 1;
      expected += linear->lora->a.size(0) * (linear->weight.out() + linear->weight.in());
      if (adapter_.config().dora) expected += linear->weight.out();
    }
    const auto whole = static_cast<std::int64_t>(adapter_.whole().size());
    for (const adapters::WholeTensor& tensor : adapter_.whole())
      expected += c10::multiply_integers(tensor.shape);
    const auto& embedding = run_.model->trained_parts().embedding_lora;
    if (embedding) {
      const model::ModelConfig& shape = run_.model->config();
      expected += embedding->a.size(0) * (shape.vocab_size + shape.hidden_size);
    }
    const bool head = adapter_.score().defined(), rows = adapter_.token_rows().defined();
    if (head) expected += adapter_.score().numel();
    if (rows) expected += adapter_.token_rows().numel();
    for (const auto& tensor : adapter_.tensors()) {
      if (!tensor.value.requires_grad()) continue;
      trainable += 1;
      found += tensor.value.numel();
    }
    const std::string rule =
        "sum r (in + out)" + std::string(adapter_.config().dora ? " + out" : "") + " over " +
        base::counted(static_cast<std::int64_t>(modules + (embedding ? 1 : 0)), "target") +
        (whole > 0 ? " + " + base::counted(static_cast<std::int64_t>(whole), "tensor") + " in full" : "") +
        (rows ? " + rows of the embedding" : "") + (head ? " + the score head" : "");
    if (found == expected) return say("GRAD-04", Level::kOk, grouped(found) + " trainable = " + rule);
    out_.push_back({.code = "GRAD-04",
                    .level = Level::kFail,
                    .what = "adapters exist but are frozen: " +
                            count_of(trainable, (adapter_.config().dora ? 3 : 2) * modules + (head ? 1 : 0) +
                                                    (rows ? 1 : 0) + whole + (embedding ? 2 : 0)) +
                            " tensors are trainable",
                    .evidence = "expected " + grouped(expected) + " = " + rule + "; found " + grouped(found),
                    .cause = "something froze them after they were attached",
                    .fix = "load, then attach, then freeze the rest",
                    .cost = "the frozen tensors would not learn"});
  }

  void prepare() {
    std::int64_t offset = 0;
    const std::vector<bool> detailed = spread_tensors(adapter_, spread_elements(run_, kCopies));
    for (const auto& tensor : adapter_.tensors()) {
      reach_.push_back({.tensor = &tensor,
                        .offset = offset,
                        .detailed = detailed[reach_.size()],
                        .before = tensor_hash(tensor.value)});
      reach_.back().flat_before = tensor_hash(slice(adapter_.flat(), reach_.back()));
      offset += tensor.value.numel();
    }
  }

  at::Tensor slice(const at::Tensor& flat, const Reach& one) const {
    return flat.narrow(0, one.offset, one.tensor->value.numel());
  }

  // False: a value was not finite, which has been said.
  bool rehearse() {
    const std::int64_t tokens = rehearsal_tokens(*run_.model);
    const auto update = [this](const at::Tensor& parameters, const at::Tensor& gradient, double rate) {
      take_step(parameters, gradient, rate);
    };
    train::WholeStep steps(adapter_, run_.plan.max_grad_norm, update);
    for (int step = 0; step < kMaxSteps; ++step) {
      const auto silent =
          std::count_if(reach_.begin(), reach_.end(), [](const Reach& one) { return one.first < 0; });
      if (step >= kRehearsalSteps && silent == 0) break;
      const auto backward = [&]() -> train::StepLoss {
        const train::Rehearsal found = run_.method->rehearse({.index = step, .max_tokens = tokens});
        scored_ += found.scored;
        if (step == 0) loss_ = found.nll;
        const bool finite = note_gradients(step, found);
        return {.loss = finite ? found.loss : std::numeric_limits<double>::quiet_NaN()};
      };
      if (!steps.step({.backward = backward}, run_.plan.learning_rate).is_finite()) return false;
      steps_ = step + 1;
    }
    return true;
  }

  bool note_gradients(int step, const train::Rehearsal& found) {
    std::string bad;
    for (Reach& one : reach_) {
      const auto largest = slice(adapter_.flat_gradient(), one).abs().max().item<double>();
      if (!std::isfinite(largest) && bad.empty()) bad = one.tensor->name;
      if (largest != 0 && one.first < 0) one.first = step;
    }
    if (bad.empty() && std::isfinite(found.loss) && std::isfinite(found.nll)) return true;
    const train::Rehearsal alone =
        run_.method->rehearse({.index = step, .backward = false, .training = false, .adapters_on = false});
    out_.push_back(
        {.code = "NUM-02",
         .level = Level::kFail,
         .what = "loss or gradient is not finite in rehearsal step " + std::to_string(step + 1),
         .evidence = "loss " + number(found.loss) +
                     (bad.empty() ? "" : ", first gradient that is not finite: " + bad) +
                     "; the base alone gives a loss of " + number(alone.nll) + ", its values are finite",
         .cause = step == 0 ? "suspected: values overflow in a layer of the base in this precision"
                            : "the first update at learning_rate " + number(run_.plan.learning_rate) +
                                  " made the model diverge",
         .not_this = "a damaged weight file: every value of the base is finite",
         .fix = step == 0 ? "dtype: float32 with bf16: false, to see whether precision is the cause"
                          : "lower learning_rate",
         .cost = "the whole run"});
    return false;
  }

  void take_step(const at::Tensor& parameters, const at::Tensor& gradient, double lr) {
    std::vector<at::Tensor> intended(reach_.size());
    for (std::size_t i = 0; i < reach_.size(); ++i) {
      Reach& one = reach_[i];
      if (!one.detailed) continue;
      one.earlier = slice(parameters, one).clone();
      const at::Tensor next = optimizer_.reference(i, parameters, gradient, lr);
      intended[i] = (next - one.earlier.to(at::kDouble)).to(at::kFloat);
    }
    take_step_(optimizer_, parameters, gradient, lr);
    stored_a_ = stored_b_ = {};
    wrong_.clear();
    for (std::size_t i = 0; i < reach_.size(); ++i) {
      if (reach_[i].detailed) compare_update(reach_[i], intended[i].to(at::kDouble));
    }
  }

  // The same step in fp64 beside what now lies in the buffer.
  void compare_update(Reach& one, const at::Tensor& intended) {
    const at::Tensor p = one.earlier.to(at::kDouble);
    const at::Tensor stored = slice(adapter_.flat(), one).to(at::kDouble) - p;
    const double lr = run_.plan.learning_rate;
    const auto norm = [](const at::Tensor& x) { return x.norm().item<double>(); };
    const double wanted = norm(intended);
    Stored& group = is_b(*one.tensor) ? stored_b_ : stored_a_;
    // While B is near 0 so is A's gradient, and epsilon holds its update down: then a step of full size is
    // asked for. Without a norm of its own (sgd) A's update says nothing yet.
    const auto elements = static_cast<double>(p.numel());
    const bool small = wanted * wanted < elements * 0.01 * lr * lr;
    if (small && optimizer_.normalizes()) {
      const at::Tensor kept = (one.earlier + lr).to(at::kDouble) - p;
      group.product += kept.sum().item<double>() * lr;
      group.intended += elements * lr * lr;
    } else if (optimizer_.normalizes() || is_b(*one.tensor)) {
      group.product += (stored * intended).sum().item<double>();
      group.intended += wanted * wanted;
    }
    const double off = norm(stored - intended);
    const double rounding = 2 * kHalfUlp * (norm(p) + wanted);
    const double share = optimizer_.takes_signs() ? kTurnedSigns : kArithmetic;
    if (!(off <= rounding + share * wanted)) wrong_.push_back(one.tensor->name);
  }

  std::int64_t reached_by(int step, bool only_b) const {
    return std::count_if(reach_.begin(), reach_.end(), [&](const Reach& one) {
      return one.first >= 0 && one.first <= step && (!only_b || is_b(*one.tensor));
    });
  }

  void judge_gradients() {
    const auto all = static_cast<std::int64_t>(reach_.size());
    const auto bs =
        std::count_if(reach_.begin(), reach_.end(), [](const Reach& one) { return is_b(*one.tensor); });
    const std::int64_t reached = reached_by(kMaxSteps, false);
    const std::string by_step = "lora_B " + count_of(reached_by(0, true), bs) + " in step 1, " +
                                count_of(reached_by(1, false), all) + " tensors in step 2";
    if (reached == all) {
      if (steps_ > kRehearsalSteps) {
        const std::vector<std::string> zero = zero_modules(*run_.model);
        return say(
            "GRAD-02", Level::kNote,
            count_of(all, all) + " trainable tensors receive a gradient, in " + std::to_string(steps_) +
                " steps",
            by_step + (zero.empty() ? "; the last ones are of rows of the embedding whose token came later"
                                    : "; all 0 in the base: " + first_names(zero) +
                                          ", which pass a gradient once their adapters move"));
      }
      return say("GRAD-01", Level::kOk, count_of(all, all) + " trainable tensors receive a gradient",
                 by_step);
    }
    if (scored_ == 0) {
      out_.push_back({.code = "DATA-01",
                      .level = Level::kWarn,  // all rows are counted by the part data
                      .what = "the rows of the rehearsal have no targets: no gradient was looked at",
                      .evidence = "0 target tokens in " + std::to_string(steps_) + " micro-batches",
                      .cause = "suspected: many rows have nothing to train on",
                      .fix = "look at what DATA-01 and DATA-02 say of all rows",
                      .cost = "steps on such rows change nothing"});
      return;
    }
    explain_silence(reached, by_step);
  }

  // Not before the inputs are excluded is it a fault of hone.
  void explain_silence(std::int64_t reached, const std::string& by_step) {
    std::vector<const adapters::TrainableTensor*> silent;
    std::vector<std::string> names;
    std::vector<StartValue> start;
    bool rows_alone = true;
    const at::Tensor after = adapter_.flat().clone();
    guard_->restore_parameters();
    for (const Reach& one : reach_) {
      start.push_back({one.tensor, slice(adapter_.flat(), one).clone().view(one.tensor->value.sizes())});
      if (one.first >= 0) continue;
      silent.push_back(one.tensor);
      names.push_back(one.tensor->name);
      rows_alone = rows_alone && adapters::is_token_rows(*one.tensor);
    }
    const auto all = static_cast<std::int64_t>(reach_.size());
    const auto count = static_cast<std::int64_t>(silent.size());
    {
      const at::NoGradGuard no_grad;
      adapter_.flat().copy_(after);
    }
    // of each tensor too: one that the optimizer does not hold is no part of the flat buffer
    std::vector<at::Tensor> values;
    for (const Reach& one : reach_) values.push_back(one.tensor->value.detach().clone());
    const ZeroGradient why = explain_zero_gradient(run_, start, silent, scored_, loss_);
    {
      const at::NoGradGuard no_grad;
      adapter_.flat().copy_(after);
      for (std::size_t i = 0; i < reach_.size(); ++i) {
        at::Tensor value = reach_[i].tensor->value;
        value.copy_(values[i]);
      }
    }
    silent_ = true;
    Verdict verdict = {.code = reached == 0 ? "GRAD-01" : "GRAD-02", .level = Level::kFail};
    verdict.evidence = by_step + "; loss " + number(loss_) + " over " + grouped(scored_) + " scored tokens";
    if (!why.evidence.empty()) verdict.evidence += "; " + why.evidence;
    verdict.cause = why.cause;
    if (why.explained) {
      verdict.level = reached == 0 ? Level::kFail : Level::kWarn;
      verdict.what =
          count_of(count, all) + " trainable tensors receive a gradient of exactly 0: " + tensor_list(names);
      verdict.not_this = why.excluded.text();
      verdict.fix = why.fix;
      verdict.cost = rows_alone ? "rows only learn from their own tokens" : "these tensors do not change";
    } else {
      verdict.what = reached == 0 ? "0 of " + grouped(all) + " trainable tensors receive a gradient"
                                  : count_of(count, all) + " trainable tensors receive no gradient";
      verdict.evidence += "; none: " + tensor_list(why.unexplained);
      Excluded excluded = why.excluded;
      excluded.add("gradient_checkpointing", "the backward is hand-written, recompute cannot cut it");
      excluded.add("learning_rate", "a gradient does not depend on it");
      ask_to_report(verdict, excluded, why.fix);
      verdict.cost =
          reached == 0 ? "the whole run" : "these tensors would not learn, and the loss would still move";
    }
    out_.push_back(std::move(verdict));
  }

  void judge_bits() {
    std::vector<std::string> stale;
    std::int64_t changed = 0;
    for (const Reach& one : reach_) {
      const bool same = tensor_hash(one.tensor->value) == one.before;
      const bool moved = tensor_hash(slice(adapter_.flat(), one)) != one.flat_before;
      changed += same ? 0 : 1;
      if (same && moved) stale.push_back(one.tensor->name);
    }
    const auto all = static_cast<std::int64_t>(reach_.size());
    if (stale.empty()) {
      if (changed == all) say("GRAD-05", Level::kOk, count_of(all, all) + " tensors changed");
      return;
    }
    Excluded excluded;
    excluded.add("learning_rate", "the update itself exists").add("the data", "they have a gradient");
    out_.push_back({.code = "GRAD-05",
                    .level = Level::kFail,
                    .what = count_of(static_cast<std::int64_t>(stale.size()), all) +
                            " tensors of the model do not change with the optimizer's",
                    .evidence = "the optimizer's buffer changed, their bits did not: " + tensor_list(stale),
                    .cause = "the optimizer has other memory than the model, which is a bug in hone",
                    .not_this = excluded.text(),
                    .fix = report_fix(excluded),
                    .cost = "these tensors would not learn"});
  }

  void judge_stored() {
    if (!wrong_.empty()) {
      Excluded excluded;
      excluded.add("rounding", "the difference is larger than that of fp32")
          .add("learning_rate and the data", "the fp64 step has the same");
      out_.push_back({.code = "GRAD-08",
                      .level = Level::kFail,
                      .what = "the optimizer stores an update that is not " + optimizer_.name() + "'s",
                      .evidence = count_of(static_cast<std::int64_t>(wrong_.size()), detailed_count()) +
                                  " tensors differ from the same step in fp64: " + tensor_list(wrong_),
                      .cause = "suspected: a kernel with wrong results on this machine",
                      .not_this = excluded.text(),
                      .fix = report_fix(excluded),
                      .cost = "the run would plateau, as with bad hyperparameters"});
      return;
    }
    const double share = std::min(stored_a_.share(), stored_b_.share());
    const std::string percent = number(100 * share) + " % of the intended update is stored";
    if (share >= kStoredWarn) return say("NUM-01", Level::kOk, percent + " (adapters are fp32)");
    out_.push_back(
        {.code = "NUM-01",
         .level = share < kStoredFail ? Level::kFail : Level::kWarn,
         .what = percent,
         .evidence = "lora_A " + number(100 * stored_a_.share()) + " %, lora_B " +
                     number(100 * stored_b_.share()) + " %, at learning_rate " +
                     number(run_.plan.learning_rate),
         .cause = "a step changes an element by less than half a unit in the last place of fp32",
         .not_this = "bf16: adapters, gradients and moments are fp32",
         .fix = "raise learning_rate: " + number(train::method_opening(run_.plan.method).rates.usual) +
                " is usual with adapters",
         .cost = "the part of every step that is lost in rounding"});
  }

  std::int64_t detailed_count() const {
    return std::count_if(reach_.begin(), reach_.end(), [](const Reach& one) { return one.detailed; });
  }

  // |s (B' A' - B A)| from products of rank 2 r: no [out, in] matrix is made.
  double moved(double scale, const Reach& of_a, const Reach& of_b) const {
    const adapters::TrainableTensor &a = *of_a.tensor, &b = *of_b.tensor;
    const auto earlier = [](const Reach& one) {
      return one.earlier.view(one.tensor->value.sizes()).to(at::kDouble);
    };
    const at::Tensor left = at::cat({b.value.detach().to(at::kDouble), earlier(of_b).neg()}, 1);
    const at::Tensor right = at::cat({a.value.detach().to(at::kDouble), earlier(of_a)}, 0);
    const at::Tensor product = left.t().mm(left) * right.mm(right.t());
    return scale * std::sqrt(std::max(0.0, product.sum().item<double>()));
  }

  void judge_size() {
    if (silent_) return;
    const auto linears = std::as_const(*run_.model).linears();
    std::vector<double> ratios;
    const std::size_t each = adapter_.config().dora ? 3 : 2;  // A, B and a magnitude
    const auto modules = std::count_if(linears.begin(), linears.end(),
                                       [](const ops::Linear* linear) { return linear->lora.has_value(); });
    std::vector<std::size_t> looked_at;  // places of A
    for (std::size_t i = 0; i < each * static_cast<std::size_t>(modules); i += each)
      if (reach_[i].detailed && reach_[i + 1].detailed) looked_at.push_back(i);
    const std::size_t stride = std::max<std::size_t>(1, looked_at.size() / 21);  // enough to judge by
    for (std::size_t i = 0; i < looked_at.size(); i += stride) {
      const Reach &of_a = reach_[looked_at[i]], &of_b = reach_[looked_at[i] + 1];
      for (const ops::Linear* linear : linears) {
        if (of_a.tensor->name.find(linear->name + ".") == std::string::npos) continue;
        const ops::Weight& weight = linear->weight;
        if (!weight.has_numbers()) break;
        const at::Tensor held = weight.is_quantized() ? weight.dense() : weight.memory().front().second;
        const auto size = held.to(at::kFloat).norm().item<double>();
        if (size > 0) ratios.push_back(moved(linear->lora->scale, of_a, of_b) / size);
        break;
      }
    }
    if (ratios.empty()) return;
    std::sort(ratios.begin(), ratios.end());
    const double middle = ratios[ratios.size() / 2];
    const std::string what = "a step at learning_rate " + number(run_.plan.learning_rate) +
                             " moves a weight by " + number(middle) + " of its size";
    const std::string range = "|dW| / |W| " + number(ratios.front()) + " to " + number(ratios.back()) +
                              " over " + base::counted(static_cast<std::int64_t>(ratios.size()), "module") +
                              "; usual is " + number(kSmallestUpdate) + " to " + number(kLargestUpdate);
    if (middle >= kSmallestUpdate && middle <= kLargestUpdate) return say("NUM-08", Level::kOk, what, range);
    const bool small = middle < kSmallestUpdate;
    const StepCause why = cause_of_step(run_, small);
    out_.push_back({.code = "NUM-08",
                    .level = Level::kWarn,
                    .what = what,
                    .evidence = range,
                    .cause = why.cause,
                    .fix = why.fix,
                    .cost = small ? "a run that hardly learns" : "a run that may diverge"});
  }

  void judge_base() {
    const std::string changed = first_change(print_, base_fingerprint(*run_.model));
    if (changed.empty()) return say("NUM-06", Level::kOk, "the frozen base is bit-identical after the steps");
    Excluded excluded;
    excluded.add("your options and data", "none of them may write to a frozen weight");
    out_.push_back({.code = "NUM-06",
                    .level = Level::kFail,
                    .what = "the frozen base changed in the rehearsal",
                    .evidence = "first in " + changed,
                    .cause = "something writes to weights that are not trained, which is a bug in hone",
                    .not_this = excluded.text(),
                    .fix = report_fix(excluded),
                    .cost = "the adapter would fit a base that does not exist"});
  }

  const train::RunView run_;
  adapters::Adapter& adapter_;
  OptimizerGuard lent_;
  learn::Optimizer& optimizer_;
  StateGuard* guard_ = nullptr;  // of run()
  const OptimizerStep& take_step_;
  Verdicts out_;
  std::vector<PartFingerprint> print_;
  std::vector<Reach> reach_;
  Stored stored_a_, stored_b_;
  std::vector<std::string> wrong_;
  std::int64_t scored_ = 0;
  double loss_ = 0;
  int steps_ = 0;
  bool silent_ = false;  // tensors have no gradient: the size of the step says nothing
};

}  // namespace

Verdicts examine_gradient(const train::RunView& run, const OptimizerStep& take_step) {
  return GradientProbe(run, take_step).run();
}

Verdicts probe_gradient(const train::RunView& run) {
  return examine_gradient(run, &learn::Optimizer::step);
}

}  // namespace hone::doctor
