// From a model with its adapter and its data to the numbers of a memory plan (train/opening/opening.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "config/plan.h"
#include "model/causal_lm.h"
#include "rollout/completion.h"
#include "train/batches/run_data.h"
#include "train/facts/memory_plan.h"
#include "train/passes/scored_pass.h"

namespace hone::train {

// The most tokens and scored tokens that `batch_size` of the rows can have together; the longest sequence. Of streamed rows: of the
// longest that there may be.
LongestBatch longest_batch(const RecordData& data, std::int64_t batch_size);

// What a row has; and the most that `batch_size` of the rows can have together: the largest micro-batch that
// any order of them can make.
struct RowSize {
  std::int64_t tokens = 0, scored = 0, segment = 0;
};
LongestBatch largest_batch(const std::vector<RowSize>& rows, std::int64_t batch_size);

// The backward of attention where the longest prompt is shared by `sharing` tokens of completions.
void count_shared_prompts(MemoryInputs& inputs, const model::CausalLm& model, std::int64_t longest_prompt,
                          std::int64_t sharing);

// What is in use on the plan's device: before the model is read, by the program and its data.
std::int64_t bytes_in_use(const config::MachinePlan& plan);

// Everything but the data: what the model holds and trains. The adapter is attached.
MemoryInputs memory_inputs(const model::CausalLm& model, const config::Plan& plan, std::int64_t program_bytes,
                           const LongestBatch& train, const LongestBatch& eval);

// sampling_bytes() returns what sampling takes at most: keys and values of all sequences that decode together
// (or kv_memory, when that is less), the largest prefill, logits and scratch.
struct SampledSize {
  std::int64_t prompts = 0, samples = 1;  // of each prompt
  std::int64_t longest_prompt = 0;
};
std::int64_t sampling_bytes(const model::CausalLm& model, const SampledSize& size,
                            const rollout::GenerateOptions& options);
// Returns the bytes that graphs of steps with so many sequences of at most `tokens` tokens each hold as long as the process
// lives (ops/machine/step_graphs.h); 0: there are none.
std::int64_t graph_bytes(const model::CausalLm& model, std::int64_t sequences, std::int64_t tokens);

// plan.memory_limit, or what this process holds on the plan's device already and what is free there. Asked at
// any time before step 1.
MemoryLimit memory_limit(const config::MachinePlan& plan);

// UserError (MEM-01) when the base alone does not fit that: told before its weights are read. With
// `keep_blocks` as CausalLm takes it.
void require_room_for_base(const model::WeightSource& source, const config::Plan& plan, bool keep_blocks);

PassForm pass_form(const MemoryPlan& plan);

}  // namespace hone::train
