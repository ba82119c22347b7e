// The training data of an opened run: given rows, or prompts that are sampled from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "data/forms/given_completions.h"
#include "data/records/packing.h"
#include "data/records/record_stream.h"
#include "data/records/records.h"
#include "rewards/reward.h"
#include "train/batches/rollout_batch.h"
#include "train/batches/rollout_source.h"

namespace hone::train {

// Describes a set of data to evaluate: its name (empty: the only one) and its rows. Sets lie one after
// another.
struct EvalRange {
  std::string name;
  std::int64_t rows = 0;
};

// Holds the rows of methods on given rows: SFT, DPO, CPO, ORPO, reward models, KTO. A row to train on is a
// record, or with packing several. Only the first streamed rows are here, for what looks at the data before
// step 1.
struct RecordData {
  data::Records records = {};
  data::PackedRows rows = {};
  std::vector<EvalRange> sets = {};                      // of rows to evaluate
  std::shared_ptr<data::RecordStream> stream = nullptr;  // null: all rows are here
  std::int64_t longest_row = 0;  // of streamed rows: the most tokens of a sequence; 0: not known

  // Rows by the numbers of the run's order. Views are valid until the order's next step, where rows are
  // streamed.
  data::Batch batch(const std::vector<std::int64_t>& which) const;
  std::vector<data::RecordView> members(std::int64_t row) const;
  // Takes rows that are one record each.
  std::vector<data::RecordView> one_of_each(const std::vector<std::int64_t>& which) const;
  std::int64_t tokens(const std::vector<std::int64_t>& which) const;
  // Their tokens are not needed for now.
  void release(const std::vector<std::int64_t>& which) const;
};
// GRPO, RLOO and Online DPO: prompts, and what samples and scores completions of them.
struct SampledData {
  std::shared_ptr<ToolUse> tools = nullptr;         // that the model may call; null: none
  std::shared_ptr<FunctionUse> function = nullptr;  // that makes the completions; null: hone samples
  PolicyPrompts train_prompts, eval_prompts;
  std::vector<std::unique_ptr<rewards::Reward>> rewards;
  std::vector<std::unique_ptr<rewards::Reward>> judge;         // Online DPO's, in their place: one or none
  std::vector<std::vector<std::string>> columns;               // of each reward (rewards::required_columns)
  std::vector<RolloutBatch> recorded;                          // of --replay, until open_sources takes them
  std::vector<data::GivenCompletion> train_given, eval_given;  // of distillation with lmbda below 1
  std::unique_ptr<RolloutSource> train_source, eval_source;
};

struct RunData : std::variant<RecordData, SampledData> {
  using std::variant<RecordData, SampledData>::variant;

  // Rows that are one text, or rows of two sequences; null: others.
  const RecordData* examples() const { return has_pairs() ? nullptr : std::get_if<RecordData>(this); }
  const RecordData* pairs() const { return has_pairs() ? std::get_if<RecordData>(this) : nullptr; }
  bool has_pairs() const;
  bool samples() const { return std::holds_alternative<SampledData>(*this); }
  const SampledData& sampled() const { return std::get<SampledData>(*this); }  // of a method that samples
};

}  // namespace hone::train
