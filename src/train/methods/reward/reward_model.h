// Reward-model training: TRL 1.16's RewardTrainer on concatenated pairs, without padding.
//
// A micro-batch is one pass through the decoder: the common prefix of a pair once (share_prompt), then the
// rest of each sequence. A score is score.weight times the final norm's output at a sequence's last token;
// both the adapter and the head (CausalLm::score_head) are trained. Scores and the head are fp32 whatever the
// decoder's precision is.
#pragma once

#include <vector>

#include "train/methods/methods.h"
#include "train/steps/pair_method.h"

namespace hone::train::reward {

// Pairs laid out for one pass: sequences chosen 0, rejected 0, chosen 1, ...
struct RewardPass {
  data::Batch batch;               // labels stay empty; Segment::row keys the dropout
  std::vector<std::int64_t> last;  // [2B] the token of the batch that has the sequence's score
  std::int64_t tokens = 0;         // of both sequences of every pair, as TRL counts them
};
// Segment::row is row_base + the sequence's number, of a shared beginning chosen's.
RewardPass make_reward_pass(const std::vector<data::RecordView>& records, bool share_prompt,
                            std::int64_t row_base = 0);

class RewardModel final : public PairMethod {
 public:
  // The model has an adapter with a score head.
  explicit RewardModel(RecordParts parts);

 private:
  // BatchLoss::nll is the loss of the choice, and `scored` the two scores. With adapters_on false the head
  // stays: it has no base.
  BatchLoss run_pairs(const PairBatch& batch) const override;
};

MethodOpening row();

}  // namespace hone::train::reward
