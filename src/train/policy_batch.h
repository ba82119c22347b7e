// Samples of a generation batch laid out for passes through the model: by group, so that a shared prompt
// stands once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/example.h"
#include "train/rollout_batch.h"

namespace hone::train {

// One pass. A prompt is followed by the completions that go on from it; a completion's last token is no
// input.
struct PolicyPass {
  std::vector<std::size_t> samples;  // of the RolloutBatch, [S]: sequence i of the pass is samples[i]
  data::Batch batch;                 // labels stay empty; Segment::row keys the dropout
  // [n], the completions' tokens sample by sample: the token of the batch whose output predicts it (the
  // prompt's last token comes once a sample), the token itself, and its sequence.
  std::vector<std::int64_t> source, target, sequence;
};

// `samples` in order of their prompts. With share_prompt a prompt stands once for all its samples here, else
// once for each.
PolicyPass make_policy_pass(const RolloutBatch& rollouts, std::span<const std::size_t> samples,
                            bool share_prompt);

// Cuts `samples`, in order, into passes of at most `most` sequences: whole groups where they fit, a larger
// group in pieces.
std::vector<std::vector<std::size_t>> compose_passes(const RolloutBatch& rollouts,
                                                     std::span<const std::size_t> samples, std::int64_t most);

}  // namespace hone::train
