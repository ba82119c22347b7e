// A method on records of two sequences: DPO, KTO, CPO, ORPO, reward models. The reference's
// log-probabilities, rehearsals and replays are here; a method defines the pass over some pairs.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "learn/policy_loss.h"
#include "train/passes/policy_pass.h"
#include "train/steps/row_method.h"

namespace hone::train {

// The reference's sums of log-probabilities, a row each: of its first and second sequence, as the method's
// loss takes them.
struct PairReference {
  std::vector<double> first, second;
};

template <typename Archive>
void fields(Archive& archive, PairReference& facts) {
  archive(facts.first, facts.second);
}

// From and to [2B] fp64: first 0, second 0, first 1, ...
PairReference split_sums(const at::Tensor& sums);
at::Tensor joined_sums(const PairReference& reference);

// Pairs of one pass.
struct PairBatch {
  std::vector<data::RecordView> records;
  RngKey key;
  std::int64_t row_base = 0;
  std::optional<double> loss_scale;  // gradients of loss_scale times the loss are added; empty: forward only
  // The reference is of all rows, and `rows` are the places of these records in it; null: it is computed with
  // the pass.
  const PairReference* reference = nullptr;
  const Rows* rows = nullptr;
  bool balances = false;  // the load-balancing loss of the routers is added, where the run has it
};

class PairMethod : public RowMethod {
 public:
  explicit PairMethod(RecordParts parts);

  // One pair, cut to what is asked for, through the run's own loss.
  Rehearsal rehearse(const RehearsalRequest& request) final;
  void replay_samples(std::int64_t step, const std::function<bool(const ReplayedSample&)>& see) final;

 protected:
  virtual BatchLoss run_pairs(const PairBatch& batch) const = 0;
  // Methods that have a reference override this.
  virtual PairReference score_reference(const std::vector<data::RecordView>& records) const;
  // Whether a pair of equal sides has no gradient: another is rehearsed then.
  virtual bool compares_sides() const { return true; }

  PairReference reference_of(const PairBatch& batch) const;
  at::Tensor reference_logprobs(const PolicyPass& pass) const;  // [n]
  bool shares() const { return parts_.form.is_fused && plan_.share_prompt; }
  bool balances(const PairBatch& batch) const { return batch.balances && balance_ != 0; }
  // The same of policy and reference: products of another number of rows may have other bits.
  RouterTokens routers() const { return balance_ == 0 ? RouterTokens::kNone : RouterTokens::kAll; }

  // The loss of one pass over completions: loss_of(TokenScores) gives loss, d_logprob and metrics.
  template <typename LossOf>
  BatchLoss run_tokens(const PolicyPass& pass, const PairBatch& batch, const HeadOptions& head,
                       const LossOf& loss_of) const {
    BatchLoss out{.passed = static_cast<std::int64_t>(pass.batch.ids.size()),
                  .scored = static_cast<std::int64_t>(pass.target.size())};
    const auto see = [&](const TokenScores& scores) {
      auto found = loss_of(scores);
      out.nll = -scores.logprob.mean().template item<double>();
      out.loss = found.loss;
      out.metrics = std::move(found.metrics);
      learn::PolicyGradient gradient;
      gradient.loss = found.loss;
      gradient.d_logprob = found.d_logprob.mul_(batch.loss_scale.value_or(1));
      if (balances(batch)) {
        out.loss += balance_ * scores.balance;
        out.metrics.emplace_back("aux_loss", scores.balance);
      }
      return gradient;
    };
    const double balance = balances(batch) ? balance_ * batch.loss_scale.value_or(1) : 0;
    if (batch.loss_scale) {
      train_policy(parts_.model, pass, batch.key, parts_.form, head, see, balance);
    } else {
      see(score_policy(parts_.model, pass, batch.key, parts_.form, head, balance));
    }
    return out;
  }

  double balance_;  // router_factor()

 private:
  BatchLoss run(const MicroBatch& batch) final;
  void before_first_pass() final;
  PairReference precompute(const RecordData& data, std::int64_t batch_size);
  data::Record cut_record(const RehearsalRequest& request) const;

  PairReference train_reference_, eval_reference_;  // empty: computed with each micro-batch
};

}  // namespace hone::train
