// Completions laid out for one pass through the model, and what the loss wants of them.
#pragma once

#include <cstdint>
#include <vector>

#include "data/records/record.h"
#include "learn/preference_loss.h"
#include "train/passes/policy_batch.h"
#include "train/passes/policy_pass.h"

namespace hone::train {

// The sequences of form.parts of each record, in that order; those without a scored token are left out.
struct PairPass {
  PolicyPass pass;
  std::vector<std::size_t> records;              // of each sequence: which of the given records
  std::vector<std::int64_t> scored, completion;  // of each sequence, as learn::PreferenceTokens
  std::int64_t tokens = 0;                       // of all sequences, as TRL counts them
};
struct PairForm {
  bool share_prompt = false;  // a context stands once where two sequences of a record have the same
  std::int64_t row_base = 0;  // keys the dropout (make_policy_pass)
  std::vector<data::Part> parts = {data::Part::kChosen, data::Part::kRejected};
  RouterTokens routers = RouterTokens::kNone;
};
PairPass make_pair_pass(const std::vector<data::RecordView>& records, const PairForm& form);

learn::PreferenceTokens preference_tokens(const PairPass& pass, const TokenScores& scores,
                                          const at::Tensor& reference);

}  // namespace hone::train
