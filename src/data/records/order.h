// The order of the training rows, and the arithmetic of steps and epochs: transformers' own (5.23, one
// process).
//
// Order: Trainer's RandomSampler, which accelerate (1.15) replaces by SeedableRandomSampler: epoch e is
// torch.randperm(n) of a CPU generator seeded with (data_seed or seed) + e.
// group_by_length: LengthGroupedSampler (trainer_pt_utils.get_length_grouped_indices) on that permutation; its own is
// drawn from torch's global generator, which depends on what the program drew before.
// Steps: Trainer.set_initial_training_values and Trainer._run_epoch.
// Streamed rows (an IterableDataset): file order, again from the beginning after the last row. A last step of fewer micro-batches is a
// step, as with other rows; transformers leaves its gradient to the first step of the next pass.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace hone::data {

// Rows in the order in which they come. hold(from, to) makes rows [from, to) ready and returns `to`, or the
// number of all rows where there are fewer. Then a pass over them begins again.
struct StreamedRows {
  std::function<std::int64_t(std::int64_t from, std::int64_t to)> hold = nullptr;  // null: not streamed
  std::int64_t max_steps = 0;   // of the run, which is one epoch of transformers
  std::int64_t first_step = 0;  // that begins with the first row: of a resumed run with ignore_data_skip

  explicit operator bool() const { return hold != nullptr; }
};

struct OrderOptions {
  std::int64_t rows = 0;        // after packing: the rows that a batch is made of
  std::int64_t batch_size = 8;  // per_device_train_batch_size
  std::int64_t accumulation = 1;
  std::uint64_t seed = 42;  // data_seed, or seed
  bool shuffle = true;
  bool drop_last = false;                  // dataloader_drop_last: leave out a short last micro-batch
  std::vector<std::int64_t> lengths = {};  // group_by_length: tokens of each row; empty: not grouped

  StreamedRows streamed = {};  // where it is set, `rows` is not known
};

// Micro-batches of one optimizer step: row numbers. The last step of an epoch may have fewer micro-batches,
// and its last micro-batch fewer rows, as in transformers.
using StepRows = std::vector<std::vector<std::int64_t>>;

// An epoch's order with rows of similar length together: the permutation in parts of at most 50 groups of
// group_size rows, each sorted by length, the longest row of all first.
std::vector<std::int64_t> grouped_by_length(const std::vector<std::int64_t>& permutation,
                                            const std::vector<std::int64_t>& lengths,
                                            std::int64_t group_size);

class Order {
 public:
  // UserError when there are no rows, or drop_last leaves no micro-batch.
  explicit Order(OrderOptions options);

  const OrderOptions& options() const { return options_; }
  std::int64_t batches_per_epoch() const;  // micro-batches: Trainer's steps_in_epoch
  std::int64_t steps_per_epoch() const;    // optimizer steps
  // Step `step` of the whole run, from 0; any step can be asked for (resume). Keeps one epoch's permutation;
  // not for several threads at once. Streamed rows: UserError when there are none.
  StepRows step_rows(std::int64_t step) const;
  // The epoch that a step belongs to, from 0. For streamed rows it is the pass, and 0 until the end of one
  // was seen.
  std::int64_t pass_of(std::int64_t step) const;
  // Micro-batches of the pass over streamed rows; nullopt while its end was not seen.
  std::optional<std::int64_t> batches_per_pass() const;

 private:
  StepRows streamed_rows(std::int64_t step) const;
  std::int64_t batches_of(std::int64_t rows) const;

  OrderOptions options_;
  mutable std::int64_t streamed_ = -1;  // all streamed rows; -1: not known
  mutable std::int64_t cached_epoch_ = -1;
  mutable std::vector<std::int64_t> cached_;
};

// Optimizer steps of the run: max_steps when it is not negative, else ceil(num_train_epochs * steps per
// epoch).
std::int64_t total_steps(const Order& order, double num_train_epochs, std::int64_t max_steps);

// The `epoch` that Trainer logs after `completed` optimizer steps: whole epochs + share of micro-batches
// seen.
double epoch_at(const Order& order, std::int64_t completed);

}  // namespace hone::data
