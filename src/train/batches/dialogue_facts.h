// These are shown and watched of a dialogue with tools: its turns, what became of each call, and which of its
// text the model drew.
#pragma once

#include "text/tokenizer.h"
#include "tools/response_parser.h"
#include "train/batches/rollout_batch.h"
#include "train/facts/step_facts.h"

namespace hone::train {

// Sets calls, and of a dialogue its messages, spans, and with a parser opens_call.
void add_dialogue(CompletionFacts& to, const RolloutSample& sample, const text::Tokenizer& tokenizer,
                  const tools::ResponseParser* parser);

}  // namespace hone::train
