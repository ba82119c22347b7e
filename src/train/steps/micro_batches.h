// Rows and keys of a step's micro-batches, for all methods.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/plan.h"
#include "data/records/order.h"
#include "train/batches/run_data.h"
#include "train/passes/batch_pass.h"

namespace hone::train {

using Rows = std::vector<std::int64_t>;

// The order in which `rows` rows are trained on (or prompts, of Online DPO).
data::OrderOptions order_options(const config::BatchPlan& plan, std::size_t rows);
// As `stream` (data/files/block_stream.h) gives them; null: they are not streamed. `resumed_at`: the step that
// the run begins with.
template <typename Stream>
data::StreamedRows streamed_rows(const config::Plan& plan, const std::shared_ptr<Stream>& stream,
                                 std::int64_t resumed_at) {
  if (stream == nullptr) return {};
  return {.hold = [stream](std::int64_t from, std::int64_t to) { return stream->hold(from, to); },
          .max_steps = plan.max_steps,
          .first_step = plan.ignore_data_skip ? resumed_at : 0};
}
// Returns the options for the order of given rows: as they come where they are streamed, or by length.
data::OrderOptions order_of(const config::Plan& plan, const RecordData& data, std::int64_t resumed_at);

// The key of the randomness of step `step` (0-based).
RngKey pass_key(const config::BatchPlan& plan, std::int64_t step, bool training);

Rows row_range(std::int64_t begin, std::int64_t end);  // begin, begin + 1, ..., end - 1
std::vector<std::size_t> all_of(std::size_t count);    // 0, 1, ..., count - 1

}  // namespace hone::train
