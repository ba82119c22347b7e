#include "data/records/order.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/strings/plural.h"

namespace hone::data {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

std::vector<std::int64_t> random_order(std::int64_t rows, std::uint64_t seed) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const at::Tensor order = at::randperm(rows, generator, at::TensorOptions().dtype(at::kLong));
  const auto* first = static_cast<const std::int64_t*>(order.const_data_ptr());
  return {first, first + rows};
}

std::vector<std::int64_t> file_order(std::int64_t rows) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

void require_rows(const OrderOptions& options, std::int64_t rows) {
  if (rows <= 0) {
    throw base::UserError({.where = "training data",
                           .expected = "at least one row to train on",
                           .found = "none",
                           .cause = "the file is empty, or every row was dropped",
                           .fix = "look at the data statistics above: which rows were dropped, and why"});
  }
  if (options.drop_last && rows < options.batch_size) {
    throw base::UserError({.where = "option dataloader_drop_last",
                           .expected = "at least one whole micro-batch of per_device_train_batch_size = " +
                                       base::counted(options.batch_size, "row"),
                           .found = base::counted(rows, "row, which is", "rows, all of them") + " dropped",
                           .cause = "the data is smaller than one micro-batch",
                           .fix = "set dataloader_drop_last: false, or lower per_device_train_batch_size"});
  }
}

}  // namespace

std::vector<std::int64_t> grouped_by_length(const std::vector<std::int64_t>& permutation,
                                            const std::vector<std::int64_t>& lengths,
                                            std::int64_t group_size) {
  base::require(permutation.size() == lengths.size() && group_size > 0, "data::grouped_by_length",
                "a length of each row");
  std::vector<std::int64_t> out = permutation;
  if (out.empty()) return out;
  const auto length_of = [&](std::int64_t row) { return lengths[static_cast<std::size_t>(row)]; };
  const auto rows = static_cast<std::int64_t>(out.size());
  const std::int64_t groups = std::clamp<std::int64_t>(rows / (group_size * 4), 1, 50);
  const std::int64_t size = groups * group_size;
  std::int64_t longest = 0;  // where the first of the longest parts begins
  for (std::int64_t begin = 0; begin < rows; begin += size) {
    std::stable_sort(out.begin() + begin, out.begin() + std::min(begin + size, rows),
                     [&](std::int64_t a, std::int64_t b) { return length_of(a) > length_of(b); });
    const auto first = [&](std::int64_t at) { return length_of(out[static_cast<std::size_t>(at)]); };
    if (first(begin) > first(longest)) longest = begin;
  }
  std::swap(out.front(), out[static_cast<std::size_t>(longest)]);
  return out;
}

Order::Order(OrderOptions options) : options_(std::move(options)) {
  base::require(options_.batch_size > 0 && options_.accumulation > 0, "data::Order",
                "batch_size and accumulation above 0");
  if (options_.streamed) {
    base::require(options_.streamed.max_steps > 0, "data::Order", "max_steps of streamed rows");
  } else {
    require_rows(options_, options_.rows);
  }
}

std::int64_t Order::batches_of(std::int64_t rows) const {
  return options_.drop_last ? rows / options_.batch_size : divide_up(rows, options_.batch_size);
}

std::int64_t Order::batches_per_epoch() const {
  return options_.streamed ? options_.streamed.max_steps * options_.accumulation : batches_of(options_.rows);
}

std::optional<std::int64_t> Order::batches_per_pass() const {
  if (streamed_ < 0) return std::nullopt;
  return batches_of(streamed_);
}

std::int64_t Order::pass_of(std::int64_t step) const {
  if (!options_.streamed) return step / steps_per_epoch();
  const std::optional<std::int64_t> batches = batches_per_pass();
  if (!batches) return 0;
  return std::max<std::int64_t>(step - options_.streamed.first_step, 0) /
         divide_up(*batches, options_.accumulation);
}

StepRows Order::streamed_rows(std::int64_t step) const {
  step = std::max<std::int64_t>(step - options_.streamed.first_step, 0);
  const std::int64_t size = options_.accumulation * options_.batch_size;
  std::int64_t from = step * size, to = from + size;
  if (streamed_ < 0) {
    const std::int64_t end = options_.streamed.hold(from, to);
    if (end < to) {
      require_rows(options_, end);
      streamed_ = end;
    }
  }
  if (streamed_ >= 0) {
    const std::int64_t batches = batches_of(streamed_);
    from = step % divide_up(batches, options_.accumulation) * size;
    to = std::min({from + size, batches * options_.batch_size, streamed_});
    options_.streamed.hold(from, to);
  }
  StepRows out;
  for (std::int64_t begin = from; begin < to; begin += options_.batch_size) {
    std::vector<std::int64_t>& batch = out.emplace_back();
    for (std::int64_t row = begin; row < std::min(begin + options_.batch_size, to); ++row)
      batch.push_back(row);
  }
  return out;
}

std::int64_t Order::steps_per_epoch() const {
  return divide_up(batches_per_epoch(), options_.accumulation);
}

StepRows Order::step_rows(std::int64_t step) const {
  base::require(step >= 0, "data::Order::step_rows", "a step from 0");
  if (options_.streamed) return streamed_rows(step);
  const std::int64_t epoch = pass_of(step);
  if (epoch != cached_epoch_) {
    cached_ = options_.shuffle
                  ? random_order(options_.rows, options_.seed + static_cast<std::uint64_t>(epoch))
                  : file_order(options_.rows);
    if (!options_.lengths.empty()) {
      cached_ = grouped_by_length(cached_, options_.lengths, options_.batch_size * options_.accumulation);
    }
    cached_epoch_ = epoch;
  }
  const std::int64_t first = (step % steps_per_epoch()) * options_.accumulation;
  const std::int64_t last = std::min(first + options_.accumulation, batches_per_epoch());
  StepRows batches;
  for (std::int64_t batch = first; batch < last; ++batch) {
    const std::int64_t begin = batch * options_.batch_size;
    const std::int64_t end = std::min(begin + options_.batch_size, options_.rows);
    batches.emplace_back(cached_.begin() + begin, cached_.begin() + end);
  }
  return batches;
}

std::int64_t total_steps(const Order& order, double num_train_epochs, std::int64_t max_steps) {
  if (max_steps >= 0) return max_steps;
  return static_cast<std::int64_t>(
      std::ceil(num_train_epochs * static_cast<double>(order.steps_per_epoch())));
}

double epoch_at(const Order& order, std::int64_t completed) {
  if (completed == 0) return 0;
  if (const auto pass = order.batches_per_pass()) {
    const std::int64_t accumulation = order.options().accumulation, steps = divide_up(*pass, accumulation);
    const std::int64_t last = std::max<std::int64_t>(completed - order.options().streamed.first_step, 1) - 1;
    const std::int64_t passes = last / steps;
    return static_cast<double>(passes) +
           static_cast<double>(std::min((last % steps + 1) * accumulation, *pass)) /
               static_cast<double>(order.batches_per_epoch());
  }
  const std::int64_t epoch = (completed - 1) / order.steps_per_epoch();
  const std::int64_t step = (completed - 1) % order.steps_per_epoch();
  const std::int64_t batches = std::min((step + 1) * order.options().accumulation, order.batches_per_epoch());
  return static_cast<double>(epoch) +
         static_cast<double>(batches) / static_cast<double>(order.batches_per_epoch());
}

}  // namespace hone::data
