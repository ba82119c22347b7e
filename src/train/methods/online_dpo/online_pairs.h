// From a scored generation batch of two completions a prompt to Online DPO's pairs: TRL 1.16's
// OnlineDPOTrainer.training_step, between its rewards and its loss.
//
//   score     = sum over functions of weight * reward, fp32, None left out;  - missing_eos_penalty for a
//               completion that max_new_tokens ended
//   chosen    = the first completion where its score is at least the second's, as in TRL: of a tie it is the
//               first
//   prompt    = its last max_length - (tokens of the longer completion) tokens, at least one
//
// Two things differ from TRL. A completion that no function scored has no score, and its pair is left out
// (TRL's nansum makes it 0). And the prompt is cut by its own pair: TRL cuts by the longest padded row of the
// micro-batch, so that what a pair is trained on there depends on its neighbors.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "config/plan.h"
#include "data/records/record.h"
#include "train/batches/rollout_batch.h"
#include "train/facts/step_facts.h"

namespace hone::train::online_dpo {

struct OnlinePair {
  data::Record record;
  std::size_t chosen = 0, rejected = 0;         // samples of the RolloutBatch
  double score_chosen = 0, score_rejected = 0;  // NaN: no function scored it
  bool is_scored = true;                        // both are
  bool is_tie = false;
};

// Pairs of each micro-batch: the batch's slices, or per_device_train_batch_size prompts in order.
// UserError naming `where` unless samples stand in pairs of one prompt, every token is below `vocab_size` and
// slices hold whole pairs.
std::vector<std::vector<OnlinePair>> online_pairs(const RolloutBatch& batch, const config::Plan& plan,
                                                  std::int64_t vocab_size, const std::string& where);

// Returns the pairs that train: scored, and under skip_ties no ties.
std::vector<OnlinePair> trained_pairs(std::span<const OnlinePair> pairs, const config::Plan& plan);

// TRL's of a micro-batch that need no model: objective/scores, objective/scores_margin (without a judge,
// whose verdicts are no scores), val/contain_eos_token. Ours: ties (share of the scored pairs),
// completions/mean_length and, of several functions, rewards/<name>/mean.
std::vector<NamedValue> score_metrics(const RolloutBatch& batch, std::span<const OnlinePair> pairs,
                                      const config::Plan& plan);

}  // namespace hone::train::online_dpo
