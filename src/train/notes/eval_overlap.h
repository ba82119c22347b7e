// Rows to evaluate that are training rows too (DATA-11): what an evaluation shows of them is memory.
#pragma once

#include "train/batches/rollout_source.h"
#include "train/batches/run_data.h"
#include "train/facts/step_facts.h"

namespace hone::train {

// Rows with the same tokens, after the cut at max_length. For a pair these are prompt and chosen; for a
// method that samples, the prompt. `file` is the evaluation's, for messages.
EvalOverlap eval_overlap(const RecordData& train, const RecordData& eval, const base::fs::path& file);
// Without prompts to train on (a replay) nothing is compared.
EvalOverlap eval_overlap(const PolicyPrompts& train, const PolicyPrompts& eval);

}  // namespace hone::train
