// Samples of a generation batch laid out for passes through the model: by group, so that a shared prompt
// occurs once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/records/record.h"
#include "train/batches/rollout_batch.h"

namespace hone::train {

// Which tokens the load-balancing loss of a pass's routers counts.
enum class RouterTokens {
  kNone,              // there is no such loss
  kAll,               // TRL's: those of every sequence, so that a shared prompt counts once for each
  kWithoutTruncated,  // the same, without completions that were cut (mask_truncated_completions)
};

// One pass. A prompt is followed by its completions; a completion's last token is not an input, except where routers
// read it.
struct PolicyPass {
  std::vector<std::size_t> samples;  // of the RolloutBatch, [S]: sequence i of the pass is samples[i]
  data::Batch batch;                 // labels stay empty; Segment::row keys the dropout
  // [n], the completions' drawn tokens sample by sample: the token of the batch whose output predicts it (the
  // prompt's last token comes once a sample), the token itself, and its sequence.
  std::vector<std::int64_t> source, target, sequence;
  // Says how often each token of the batch counts, for RouterTokens other than kNone; else empty.
  std::vector<float> router_weights;
};

// `samples` in order of their prompts. With share_prompt a prompt stands once for all its samples here, else
// once for each. Segment::row is row_base + the sample's number: what keys dropout must differ between the
// generation batches, and the uses of one, that a step trains on.
PolicyPass make_policy_pass(const RolloutBatch& rollouts, std::span<const std::size_t> samples,
                            bool share_prompt, std::int64_t row_base = 0,
                            RouterTokens routers = RouterTokens::kNone);

// Limits of a pass.
struct PassLimit {
  std::int64_t sequences = 1;
  std::int64_t tokens = 0;  // prompts, once each, and completions; 0: no limit. One sequence may exceed it.
};

// Splits `samples`, ordered by prompt, into passes: whole groups if they fit, larger groups in pieces.
std::vector<std::vector<std::size_t>> compose_passes(const RolloutBatch& rollouts,
                                                     std::span<const std::size_t> samples, PassLimit limit);

}  // namespace hone::train
