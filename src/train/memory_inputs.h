// From a model with its adapter and its data to the numbers of a memory plan. In the order of a run:
//
// clang-format off
//   const std::int64_t program = base::process_memory().resident;  // after the data, just before the model is read
//   model::CausalLm model(...);
//   adapters::Adapter adapter = ...;
//   const LongestBatch longest = longest_batch(data.examples, data.rows, plan.per_device_train_batch_size);
//   start.memory = plan_memory(memory_inputs(model, plan, program, longest, eval_longest), plan.layer_form,
//                              plan.recompute, memory_limit(plan));
//   SftMethod method(..., pass_form(start.memory));
//   run_loop({..., .planned_memory = start.memory.total});
// clang-format on
#pragma once

#include <cstdint>
#include <vector>

#include "config/plan.h"
#include "data/packing.h"
#include "model/causal_lm.h"
#include "rollout/completion.h"
#include "train/memory_plan.h"
#include "train/scored_pass.h"

namespace hone::train {

// The most tokens and scored tokens that `batch_size` of the rows can have together; the longest sequence.
LongestBatch longest_batch(const std::vector<data::Example>& examples,
                           const std::vector<data::PackedRow>& rows, std::int64_t batch_size);

// What a row has; and the most that `batch_size` of the rows can have together: the largest micro-batch that
// any order of them can make.
struct RowSize {
  std::int64_t tokens = 0, scored = 0, segment = 0;
};
LongestBatch largest_batch(const std::vector<RowSize>& rows, std::int64_t batch_size);

// The backward of attention where the longest prompt is shared by `sharing` tokens of completions.
void count_shared_prompts(MemoryInputs& inputs, const model::CausalLm& model, std::int64_t longest_prompt,
                          std::int64_t sharing);

// Everything but the data: what the model holds and trains. The adapter is attached.
MemoryInputs memory_inputs(const model::CausalLm& model, const config::Plan& plan, std::int64_t program_bytes,
                           const LongestBatch& train, const LongestBatch& eval);

// What sampling a generation batch takes at most: keys and values of all its sequences (or kv_memory, when
// that is less), the largest prefill, logits and scratch.
std::int64_t sampling_bytes(const model::CausalLm& model, const config::Plan& plan,
                            std::int64_t longest_prompt, const rollout::GenerateOptions& options);

// plan.memory_limit, or what this process holds already and what is free beside it. Asked at any time before
// step 1.
MemoryLimit memory_limit(const config::Plan& plan);

PassForm pass_form(const MemoryPlan& plan);

}  // namespace hone::train
