// What is shown of a dialogue with tools: its turns, what became of each call, and which of its text the model drew.
#pragma once

#include "text/tokenizer.h"
#include "train/batches/rollout_batch.h"
#include "train/facts/step_facts.h"

namespace hone::train {

// Sets messages, calls and spans; nothing for a sample that is one turn.
void add_dialogue(CompletionFacts& to, const RolloutSample& sample, const text::Tokenizer& tokenizer);

}  // namespace hone::train
