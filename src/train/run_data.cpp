#include "train/run_data.h"

namespace hone::train {

data::Batch ExampleData::batch(const std::vector<std::int64_t>& which) const {
  return stream != nullptr ? stream->batch(which) : data::make_batch(examples, rows, which);
}

std::vector<data::ExampleView> ExampleData::members(std::int64_t row) const {
  if (stream != nullptr) return stream->members(row);
  std::vector<data::ExampleView> out;
  for (const std::uint32_t member : rows.members(static_cast<std::size_t>(row)))
    out.push_back(examples[member]);
  return out;
}

}  // namespace hone::train
