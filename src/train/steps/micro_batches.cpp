#include "train/steps/micro_batches.h"

#include <numeric>

namespace hone::train {

data::OrderOptions order_options(const config::BatchPlan& plan, std::size_t rows) {
  return {.rows = static_cast<std::int64_t>(rows),
          .batch_size = plan.per_device_train_batch_size,
          .accumulation = plan.accumulation(),
          .seed = static_cast<std::uint64_t>(plan.data_seed.value_or(plan.seed)),
          .shuffle = plan.train_sampling_strategy != config::RowOrder::kSequential,
          .drop_last = plan.dataloader_drop_last};
}

data::OrderOptions order_of(const config::Plan& plan, const RecordData& data, std::int64_t resumed_at) {
  data::OrderOptions out = order_options(plan, data.rows.size());
  out.streamed = streamed_rows(plan, data.stream, resumed_at);
  if (!out.streamed && plan.train_sampling_strategy == config::RowOrder::kByLength) {
    for (std::size_t row = 0; row < data.rows.size(); ++row)
      out.lengths.push_back(data::row_tokens(data.records, data.rows, row));
  }
  return out;
}

RngKey pass_key(const config::BatchPlan& plan, std::int64_t step, bool training) {
  return {.training = training,
          .seed = static_cast<std::uint64_t>(plan.seed),
          .step = static_cast<std::uint64_t>(step)};
}

Rows row_range(std::int64_t begin, std::int64_t end) {
  Rows out(static_cast<std::size_t>(end - begin));
  std::iota(out.begin(), out.end(), begin);
  return out;
}

std::vector<std::size_t> all_of(std::size_t count) {
  std::vector<std::size_t> out(count);
  std::iota(out.begin(), out.end(), std::size_t{0});
  return out;
}

}  // namespace hone::train
