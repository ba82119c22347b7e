// The training data of an opened run: one of three kinds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "data/example_stream.h"
#include "data/examples.h"
#include "data/packing.h"
#include "data/preferences.h"
#include "rewards/reward.h"
#include "train/rollout_batch.h"
#include "train/rollout_source.h"

namespace hone::train {

// Of data to evaluate: a set's name (empty: the only one) and its rows. Sets lie one after another.
struct EvalRange {
  std::string name;
  std::int64_t rows = 0;
};

// SFT: rows ready to be batched. Of streamed rows the first ones are here, for what looks at the data before step 1.
struct ExampleData {
  data::Examples examples = {};
  data::PackedRows rows = {};
  std::vector<EvalRange> sets = {};                       // of rows to evaluate
  std::shared_ptr<data::ExampleStream> stream = nullptr;  // null: all rows are here
  std::int64_t longest_row = 0;                           // of streamed rows: the most tokens; 0: not known

  // Rows by the numbers of the run's order.
  data::Batch batch(const std::vector<std::int64_t>& which) const;
  std::vector<data::ExampleView> members(std::int64_t row) const;
};

// DPO, CPO, ORPO, reward models and KTO. Of KTO `chosen` is a row's own completion, `rejected` another row's after the
// same prompt.
struct PairData {
  std::vector<data::PreferencePair> pairs;
  std::vector<double> margins;          // reward models: one a pair, or none
  std::vector<std::uint8_t> desirable;  // KTO: one a row
  std::vector<EvalRange> sets = {};     // of pairs to evaluate
};

// GRPO, RLOO and Online DPO: prompts, and what samples and scores completions of them.
struct SampledData {
  PolicyPrompts train_prompts, eval_prompts;
  std::vector<std::unique_ptr<rewards::Reward>> rewards;
  std::vector<std::unique_ptr<rewards::Reward>> judge;  // Online DPO's, in their place: one or none
  std::vector<std::vector<std::string>> columns;        // of each reward (rewards::required_columns)
  std::vector<RolloutBatch> recorded;                   // of --replay, until open_sources takes them
  std::unique_ptr<RolloutSource> train_source, eval_source;
};

using RunData = std::variant<ExampleData, PairData, SampledData>;

}  // namespace hone::train
