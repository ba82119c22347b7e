#include "train/steps/row_method.h"

#include <algorithm>

#include "base/step_progress.h"
#include "base/stopwatch.h"
#include "train/saves/run_state.h"

namespace hone::train {

RowMethod::RowMethod(RecordParts parts)
    : parts_(std::move(parts)),
      plan_(parts_.plan),
      order_(order_of(plan_, parts_.train, parts_.resumed_at)),
      total_steps_(data::total_steps(order_, plan_.num_train_epochs, plan_.max_steps)) {}

Denominators RowMethod::denominators(const data::StepRows& micro_batches) const {
  return {.micro_batches = static_cast<double>(micro_batches.size())};
}

RngKey RowMethod::training_key(std::int64_t step) const {
  return pass_key(plan_, step, !plan_.disable_dropout);
}

std::string RowMethod::name_of(std::int64_t file_row) const {
  const bool lines = plan_.dataset_name.ends_with(".jsonl");
  return (lines ? "line " : "row ") + std::to_string(file_row + 1) + " of " + plan_.dataset_name;
}

std::vector<std::int64_t> RowMethod::step_costs(std::int64_t step) const {
  std::vector<std::int64_t> out;
  for (const Rows& rows : order_.step_rows(step)) out.push_back(parts_.train.tokens(rows));
  return out;
}

StepLoss RowMethod::backward(std::int64_t step) {
  before_first_pass();
  const data::StepRows micro_batches = order_.step_rows(step);
  const Denominators divided = denominators(micro_batches);
  Costs costs;
  std::vector<std::int64_t> row_bases;
  std::int64_t row_base = 0;
  for (const Rows& rows : micro_batches) {
    costs.push_back(parts_.train.tokens(rows));
    row_bases.push_back(row_base);
    row_base += 2 * static_cast<std::int64_t>(rows.size());
  }
  base::begin_part("training", "micro-batches", static_cast<std::int64_t>(micro_batches.size()));
  const auto found = work().add_gradients<BatchLoss>(costs, [&](std::size_t i) {
    const BatchLoss one = run(
        {.rows = micro_batches[i], .key = training_key(step), .row_base = row_bases[i], .backward = divided});
    base::advance_part();
    return one;
  });
  StepLoss out;
  for (const BatchLoss& one : found) {
    out.loss += one.loss / one.divisor * divided.loss_scale();
    out.tokens += one.tokens;
    out.metrics.insert(out.metrics.end(), one.metrics.begin(), one.metrics.end());
  }
  return out;
}

std::vector<EvalFacts> RowMethod::evaluate_sets() {
  std::vector<EvalFacts> out;
  std::int64_t first = 0;
  for (const EvalRange& set : parts_.eval->sets) {
    out.push_back(evaluate_set(set, first));
    first += set.rows;
  }
  return out;
}

// transformers' evaluation: each batch's own loss, repeated for its rows, then the mean over rows; metrics
// are TRL's, the mean over batches.
EvalFacts RowMethod::evaluate_set(const EvalRange& set, std::int64_t first) {
  const auto start = base::Clock::now();
  before_first_pass();
  const std::int64_t end = first + set.rows;
  EvalFacts out{.set = set.name, .metrics = {}, .rows = set.rows};
  data::StepRows batches;
  Costs costs;
  const std::int64_t size = plan_.per_device_eval_batch_size;
  for (std::int64_t begin = first; begin < end; begin += size) {
    batches.push_back(row_range(begin, std::min(begin + size, end)));
    costs.push_back(parts_.eval->tokens(batches.back()));
  }
  base::begin_part("evaluating", "batches", static_cast<std::int64_t>(batches.size()));
  const auto found = work().each<BatchLoss>(
      costs,
      [&](std::size_t i) {
        const BatchLoss one = run({.split = Split::kEval, .rows = batches[i]});
        base::advance_part();
        return one;
      },
      "evaluation");
  MetricMeans means;
  double loss = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    loss += static_cast<double>(batches[i].size()) * found[i].loss / found[i].divisor;
    for (const auto& [name, value] : found[i].metrics) means.add(name, value);
    out.batches += 1;
  }
  out.metrics = {{"loss", loss / static_cast<double>(out.rows)}};
  for (auto& value : means.values()) out.metrics.push_back(std::move(value));
  out.seconds = base::seconds_since(start);
  return out;
}

}  // namespace hone::train
