// Supervised fine-tuning: TRL 1.16's SFTTrainer on packed rows.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "config/plan.h"
#include "data/order.h"
#include "data/packing.h"
#include "data/tokenise.h"
#include "model/causal_lm.h"
#include "train/loop.h"
#include "train/scored_pass.h"
#include "train/step_facts.h"

namespace hone::train {

// Rows ready to be batched.
struct SftData {
  std::vector<data::Example> examples;
  std::vector<data::PackedRow> rows;
};

// Loss: -sum log p / N with N the scored tokens of the whole optimizer step (TRL.md 2.5, loss_type nll).
class SftMethod final : public Method {
 public:
  SftMethod(const config::Plan& plan, const model::CausalLm& model, SftData train,
            std::optional<SftData> eval, PassForm form = {});

  StepLoss backward(std::int64_t step) override;
  bool has_evaluation() const override { return eval_.has_value(); }
  EvalFacts evaluate() override;
  std::int64_t steps_per_epoch() const override { return order_.steps_per_epoch(); }
  std::int64_t total_steps() const override { return total_steps_; }
  double epoch_after(std::int64_t step) const override;
  Rehearsal rehearse(const RehearsalRequest& request) override;
  void replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) override;
  const SftData& train_data() const { return train_; }

 private:
  config::Plan plan_;
  const model::CausalLm& model_;
  SftData train_;
  std::optional<SftData> eval_;
  data::Order order_;
  std::int64_t total_steps_ = 0;
  PassForm form_;
};

// open_sft and begin_run: read, check, attach, announce, train, save. Throws UserError before anything is
// written when the input is at fault.
LoopResult run_sft(const config::Plan& plan, RunListener& listener, const std::atomic<bool>& stop_requested);

}  // namespace hone::train
