// CPO and ORPO share these: their records, and how they begin without a reference.
#pragma once

#include <string>

#include "learn/reference_free_loss.h"
#include "train/opening/record_opening.h"
#include "train/passes/pair_pass.h"

namespace hone::train {

learn::PairLogprobs pair_logprobs(const PairPass& pass, const TokenScores& scores);

RecordMaking reference_free_making(const RowText& text);

// Holds what a method's start page and memory plan need of it.
struct ReferenceFreeFacts {
  std::string loss;           // "simpo, beta 2, ..."
  std::string length_advice;  // as PreferenceStartFacts
  HeadTokens head_tokens = HeadTokens::kCompletions;
};
MemoryInputs begin_reference_free(OpenedRun& run, const OpenedRecords& records,
                                  const ReferenceFreeFacts& facts);

}  // namespace hone::train
