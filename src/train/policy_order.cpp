#include "train/policy_order.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "base/error.h"

namespace hone::train {

namespace {

data::Order micro_batch_order(const PolicyOrderOptions& options) {
  const std::int64_t generations = options.prompts / options.prompts_per_generation;
  if (generations == 0) {
    throw base::UserError(
        {.where = "dataset_name",
         .expected =
             "at least " + std::to_string(options.prompts_per_generation) +
             " prompts, as many as a generation batch holds (generation_batch_size / num_generations)",
         .found = std::to_string(options.prompts),
         .cause = "TRL leaves out an incomplete generation batch: nothing would be trained",
         .fix = "add prompts, or lower generation_batch_size (per_device_train_batch_size * "
                "steps_per_generation)"});
  }
  return data::Order({.rows = generations * options.steps_per_generation * options.num_iterations,
                      .batch_size = 1,
                      .accumulation = options.accumulation,
                      .seed = options.seed,
                      .shuffle = false,
                      .drop_last = false});
}

}  // namespace

PolicyOrder::PolicyOrder(PolicyOrderOptions options)
    : options_(options), micro_batches_(micro_batch_order(options)) {}

std::vector<PolicySlice> PolicyOrder::step_slices(std::int64_t step) const {
  const std::int64_t epoch = step / micro_batches_.steps_per_epoch();
  std::vector<PolicySlice> out;
  for (const auto& rows : micro_batches_.step_rows(step)) {
    const std::int64_t at = rows.front();  // of the epoch
    out.push_back({.generation = epoch * generations_per_epoch() + at / generate_every(),
                   .iteration = at % generate_every() / options_.steps_per_generation,
                   .slice = at % options_.steps_per_generation});
  }
  return out;
}

std::vector<std::int64_t> PolicyOrder::prompts(std::int64_t generation) const {
  const std::int64_t epoch = generation / generations_per_epoch();
  if (epoch != cached_epoch_) {
    at::Tensor order = at::arange(options_.prompts, at::kLong);
    if (options_.shuffle) {
      auto generator = at::detail::createCPUGenerator(options_.seed);
      for (std::int64_t e = 0; e <= epoch; ++e) order = at::randperm(options_.prompts, generator, at::kLong);
    }
    const auto* values = order.const_data_ptr<std::int64_t>();
    cached_.assign(values, values + options_.prompts);
    cached_epoch_ = epoch;
  }
  const auto begin = cached_.begin() + generation % generations_per_epoch() * options_.prompts_per_generation;
  return {begin, begin + options_.prompts_per_generation};
}

bool PolicyOrder::is_last_use(std::int64_t generation, std::int64_t step) const {
  return step_slices(step + 1).front().generation != generation;
}

std::int64_t PolicyOrder::total_steps(double num_train_epochs, std::int64_t max_steps) const {
  return data::total_steps(micro_batches_, num_train_epochs, max_steps);
}

}  // namespace hone::train
