// What CPO and ORPO share: their data, and the opening of a run without a reference.
#pragma once

#include <memory>
#include <string>

#include "learn/reference_free_loss.h"
#include "train/opening.h"
#include "train/pair_pass.h"

namespace hone::train {

learn::PairLogprobs pair_logprobs(const PairPass& pass, const TokenScores& scores);

// What a method's start page and memory plan need of it.
struct ReferenceFreeFacts {
  std::string loss;           // "simpo, beta 2, ..."
  std::string length_advice;  // as PreferenceStartFacts
  HeadTokens head_tokens = HeadTokens::kCompletions;
};

std::unique_ptr<OpenedRun> open_reference_free(const config::Plan& asked, const ReferenceFreeFacts& facts,
                                               std::unique_ptr<TrainingMethod> (*method)(PairParts));

}  // namespace hone::train
