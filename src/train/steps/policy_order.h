// The prompts of a generation batch, and the sequences that an optimizer step trains on: TRL 1.16's
// RepeatSampler and _prepare_inputs, one process.
//
// Prompts: each epoch is a torch.randperm of one generator that is seeded once and continues from epoch to
// epoch, cut into generation batches; an incomplete last one is left out. A generation batch is used
// num_iterations times, each time as steps_per_generation slices (micro-batches) of
// per_device_train_batch_size sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "data/records/order.h"

namespace hone::train {

struct PolicyOrderOptions {
  std::int64_t prompts = 0;                 // rows of the data
  std::int64_t prompts_per_generation = 1;  // generation_batch_size / num_generations
  std::int64_t steps_per_generation = 1;
  std::int64_t num_iterations = 1;
  std::int64_t accumulation = 1;
  std::uint64_t seed = 42;
  bool shuffle = true;

  // Prompts in the order of their files, where it is set; `prompts` is not known then. An incomplete last
  // generation batch of a pass is left out, as in TRL's repeat_iterable_dataset.
  data::StreamedRows streamed = {};
};

// A micro-batch of an optimizer step.
struct PolicySlice {
  std::int64_t generation = 0;  // of the run
  std::int64_t iteration = 0;   // which use of the generation batch, 0 to num_iterations - 1
  std::int64_t slice = 0;       // 0 to steps_per_generation - 1
};

class PolicyOrder {
 public:
  // UserError when there are fewer prompts than a generation batch needs.
  explicit PolicyOrder(const PolicyOrderOptions& options);

  std::vector<PolicySlice> step_slices(std::int64_t step) const;  // of step `step`, from 0
  // row numbers, prompts_per_generation of them
  std::vector<std::int64_t> prompts(std::int64_t generation) const;
  bool is_last_use(std::int64_t generation, std::int64_t step) const;  // no step after `step` trains on it
  // Whether every use of a generation batch falls into the step that it was generated in: the ratio is
  // exactly 1.
  bool on_policy() const { return options_.accumulation % generate_every() == 0; }

  std::int64_t steps_per_epoch() const { return micro_batches_.steps_per_epoch(); }
  std::int64_t total_steps(double num_train_epochs, std::int64_t max_steps) const;
  double epoch_after(std::int64_t steps) const { return data::epoch_at(micro_batches_, steps); }
  const PolicyOrderOptions& options() const { return options_; }

 private:
  std::int64_t generate_every() const { return options_.steps_per_generation * options_.num_iterations; }
  // Of streamed prompts: of a pass; 0 while its end was not seen.
  std::int64_t generations_per_epoch() const;

  PolicyOrderOptions options_;
  data::Order micro_batches_;  // rows are micro-batches of an epoch
  mutable std::int64_t cached_epoch_ = -1;
  mutable std::vector<std::int64_t> cached_;
};

}  // namespace hone::train
