// A method on given rows: SFT, DPO, KTO, CPO, ORPO, reward models. Steps, evaluation and denominators are here; a method
// defines one micro-batch.
//
// A step is gradient_accumulation_steps micro-batches. Its loss is transformers': the mean over the
// micro-batches of each one's own loss, or, of a loss that is a mean over tokens, the sum over all its tokens
// divided by their number (num_items_in_batch). Metrics are each micro-batch's, as TRL appends them.
#pragma once

#include <optional>

#include "config/plan.h"
#include "data/records/order.h"
#include "model/causal_lm.h"
#include "train/batches/run_data.h"
#include "train/loop/training_method.h"
#include "train/passes/policy_pass.h"
#include "train/passes/reference.h"
#include "train/steps/micro_batches.h"

namespace hone::train {

// A step's gradient is that of the sum over its micro-batches of loss / tokens / micro_batches.
struct Denominators {
  double tokens = 1;         // of a loss that is a sum over tokens: those of the whole step
  double micro_batches = 1;  // of a loss that is a mean: how many the step has
  double count = 1;          // how many it has, whatever the loss: of what is added to each one's own

  double loss_scale() const { return 1.0 / micro_batches; }
};

enum class Split { kTrain, kEval };

struct MicroBatch {
  Split split = Split::kTrain;
  const Rows& rows;
  RngKey key;
  std::int64_t row_base = 0;             // keys the dropout: two sequences a row
  std::optional<Denominators> backward;  // empty: forward only
};

struct BatchLoss {
  double loss = 0;     // a mean, or a sum over tokens
  double divisor = 1;  // what it is divided by: 1, or Denominators::tokens (forward only: the batch's own)
  std::int64_t tokens = 0;
  std::vector<NamedValue> metrics;
  // For a rehearsal: mean -log p of the scored tokens; tokens of the pass, and those that are scored.
  double nll = 0;
  std::int64_t passed = 0, scored = 0;
};

template <typename Archive>
void fields(Archive& archive, BatchLoss& facts) {
  archive(facts.loss, facts.divisor, facts.tokens, facts.metrics, facts.nll, facts.passed, facts.scored);
}

// Holds what such a method is made of.
struct RecordParts {
  const config::Plan& plan;
  const model::CausalLm& model;
  const RecordData& train;
  std::optional<RecordData> eval;  // empty: no evaluation
  PassForm form;
  Reference reference = {};
  std::int64_t resumed_at = 0;  // the step that the run begins with
};

class RowMethod : public TrainingMethod {
 public:
  explicit RowMethod(RecordParts parts);

  StepLoss backward(std::int64_t step) final;
  bool has_evaluation() const final { return parts_.eval.has_value(); }
  EvalFacts evaluate() final { return evaluate_set(parts_.eval->sets.front(), 0); }
  std::vector<EvalFacts> evaluate_sets() final;
  std::int64_t steps_per_epoch() const final { return order_.steps_per_epoch(); }
  std::int64_t total_steps() const final { return total_steps_; }
  double epoch_after(std::int64_t step) const final { return data::epoch_at(order_, step); }
  std::vector<std::int64_t> step_costs(std::int64_t step) const final;

 protected:
  virtual BatchLoss run(const MicroBatch& batch) = 0;
  virtual void before_first_pass() {}  // of each step and evaluation
  virtual Denominators denominators(const data::StepRows& micro_batches) const;
  const RecordData& data_of(Split split) const {
    return split == Split::kTrain ? parts_.train : *parts_.eval;
  }
  RngKey training_key(std::int64_t step) const;
  std::string name_of(std::int64_t file_row) const;  // "line 18 of train.jsonl", "row 18 of data"

  RecordParts parts_;
  const config::Plan& plan_;
  data::Order order_;

 private:
  EvalFacts evaluate_set(const EvalRange& set, std::int64_t first);  // `first` row of it

  std::int64_t total_steps_;
};

}  // namespace hone::train
