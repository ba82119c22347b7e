// Pairs laid out for one pass through the model, and what the loss wants of them.
#pragma once

#include <cstdint>
#include <vector>

#include "data/preferences.h"
#include "learn/preference_loss.h"
#include "train/policy_batch.h"
#include "train/policy_pass.h"

namespace hone::train {

enum class Sides { kBoth, kChosen, kRejected };

// Sequences chosen 0, rejected 0, chosen 1, ..., or one side of each pair; sides without a scored token are left
// out. With share_prompt a pair's context stands once, where its two sides have the same. `row_base` keys the
// dropout (make_policy_pass).
struct PairPass {
  PolicyPass pass;
  std::vector<std::int64_t> rows;                // the pair of each sequence, as given
  std::vector<std::int64_t> scored, completion;  // of each sequence, as learn::PreferenceTokens
  std::int64_t tokens = 0;                       // of all sequences, as TRL counts them
};
PairPass make_pair_pass(const std::vector<data::PreferencePair>& pairs, const std::vector<std::int64_t>& rows,
                        bool share_prompt, std::int64_t row_base = 0, Sides sides = Sides::kBoth,
                        RouterTokens routers = RouterTokens::kNone);

learn::PreferenceTokens preference_tokens(const PairPass& pass, const TokenScores& scores,
                                          const at::Tensor& reference);

}  // namespace hone::train
