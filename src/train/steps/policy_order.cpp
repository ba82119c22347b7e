#include "train/steps/policy_order.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <numeric>

#include "base/error.h"

namespace hone::train {

namespace {

void require_generation_batch(const PolicyOrderOptions& options, std::int64_t prompts) {
  if (prompts >= options.prompts_per_generation) return;
  throw base::UserError(
      {.where = "dataset_name",
       .expected = "at least " + std::to_string(options.prompts_per_generation) +
                   " prompts, as many as a generation batch holds (generation_batch_size / num_generations)",
       .found = std::to_string(prompts),
       .cause = "TRL leaves out an incomplete generation batch: nothing would be trained",
       .fix = "add prompts, or lower generation_batch_size (per_device_train_batch_size * "
              "steps_per_generation)"});
}

// Streamed micro-batches, which are those of whole generation batches of prompts.
std::int64_t hold_micro_batches(const PolicyOrderOptions& options, std::int64_t from, std::int64_t to) {
  const std::int64_t uses = options.steps_per_generation * options.num_iterations;
  const std::int64_t size = options.prompts_per_generation;
  const std::int64_t end = (to + uses - 1) / uses * size;
  const std::int64_t held = options.streamed.hold(from / uses * size, end);
  if (held == end) return to;
  require_generation_batch(options, held);
  return std::min(to, held / size * uses);
}

// An epoch's rows are its micro-batches.
data::Order micro_batch_order(const PolicyOrderOptions& options) {
  data::OrderOptions out = {
      .batch_size = 1, .accumulation = options.accumulation, .seed = options.seed, .shuffle = false};
  if (options.streamed) {
    out.streamed = options.streamed;
    out.streamed.hold = [options](std::int64_t from, std::int64_t to) {
      return hold_micro_batches(options, from, to);
    };
  } else {
    require_generation_batch(options, options.prompts);
    out.rows = options.prompts / options.prompts_per_generation * options.steps_per_generation *
               options.num_iterations;
  }
  return data::Order(std::move(out));
}

}  // namespace

PolicyOrder::PolicyOrder(const PolicyOrderOptions& options)
    : options_(options), micro_batches_(micro_batch_order(options)) {}

std::int64_t PolicyOrder::generations_per_epoch() const {
  if (!options_.streamed) return options_.prompts / options_.prompts_per_generation;
  return micro_batches_.batches_per_pass().value_or(0) / generate_every();
}

std::vector<PolicySlice> PolicyOrder::step_slices(std::int64_t step) const {
  const auto micro_batches = micro_batches_.step_rows(step);
  const std::int64_t epoch = micro_batches_.pass_of(step);
  std::vector<PolicySlice> out;
  for (const auto& rows : micro_batches) {
    const std::int64_t at = rows.front();  // of the epoch
    out.push_back({.generation = epoch * generations_per_epoch() + at / generate_every(),
                   .iteration = at % generate_every() / options_.steps_per_generation,
                   .slice = at % options_.steps_per_generation});
  }
  return out;
}

std::vector<std::int64_t> PolicyOrder::prompts(std::int64_t generation) const {
  if (options_.streamed) {
    const std::int64_t pass = generations_per_epoch(), size = options_.prompts_per_generation;
    const std::int64_t first = (pass == 0 ? generation : generation % pass) * size;
    options_.streamed.hold(first, first + size);
    std::vector<std::int64_t> out(static_cast<std::size_t>(size));
    std::iota(out.begin(), out.end(), first);
    return out;
  }
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
