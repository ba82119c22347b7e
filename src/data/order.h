// The order of the training rows: transformers' own for the same seed (Trainer's RandomSampler through accelerate's
// SeedableRandomSampler: epoch e = randperm(n) of a CPU generator seeded with (data_seed or seed) + e).
#pragma once

#include <cstdint>
#include <vector>

namespace hone::data {

struct OrderOptions {
  std::int64_t rows = 0;
  std::int64_t batch_size = 8;             // per_device_train_batch_size
  std::int64_t accumulation = 1;
  std::uint64_t seed = 42;
  bool shuffle = true;
  bool drop_last = false;
};

// Micro-batches of one optimizer step: row numbers. The last step of an epoch may have fewer micro-batches, and its
// last micro-batch fewer rows, as in transformers.
using StepRows = std::vector<std::vector<std::int64_t>>;

class Order {
 public:
  explicit Order(OrderOptions options);
  std::int64_t steps_per_epoch() const;
  // Step `step` of the whole run, from 0; any step can be asked for (resume).
  StepRows step_rows(std::int64_t step) const;

 private:
  OrderOptions options_;
  mutable std::int64_t cached_epoch_ = -1;
  mutable std::vector<std::int64_t> cached_;
};

}  // namespace hone::data
