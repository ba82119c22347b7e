#include "train/sft.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace hone::train {

namespace {

data::OrderOptions order_options(const config::Plan& plan, std::size_t rows) {
  return {.rows = static_cast<std::int64_t>(rows),
          .batch_size = plan.per_device_train_batch_size,
          .accumulation = plan.gradient_accumulation_steps,
          .seed = static_cast<std::uint64_t>(plan.data_seed.value_or(plan.seed)),
          .shuffle = plan.shuffle_rows,
          .drop_last = plan.dataloader_drop_last};
}

// TRL appends these for each micro-batch.
void add_metrics(std::vector<NamedValue>& metrics, const ScoredFacts& facts) {
  const auto scored = static_cast<double>(std::max<std::int64_t>(1, facts.scored));
  metrics.emplace_back("entropy", facts.entropy_sum / scored);
  metrics.emplace_back("mean_token_accuracy", static_cast<double>(facts.correct) / scored);
}

}  // namespace

SftMethod::SftMethod(const config::Plan& plan, const model::CausalLm& model, SftData train,
                     std::optional<SftData> eval, PassForm form)
    : plan_(plan),
      model_(model),
      train_(std::move(train)),
      eval_(std::move(eval)),
      order_(order_options(plan, train_.rows.size())),
      total_steps_(data::total_steps(order_, plan.num_train_epochs, plan.max_steps)),
      form_(form) {}

StepLoss SftMethod::backward(std::int64_t step) {
  std::vector<data::Batch> batches;
  std::int64_t denominator = 0;
  for (const auto& rows : order_.step_rows(step)) {
    batches.push_back(data::make_batch(train_.examples, train_.rows, rows));
    denominator += scored_tokens(batches.back());
  }
  const PassKey key = {.training = true,
                       .seed = static_cast<std::uint64_t>(plan_.seed),
                       .step = static_cast<std::uint64_t>(step)};
  const auto n = static_cast<double>(std::max<std::int64_t>(1, denominator));
  StepLoss out;
  for (const data::Batch& batch : batches) {
    const ScoredFacts facts = score_and_backward(model_, batch, key, n, form_);
    out.loss += facts.nll_sum / n;
    out.tokens += facts.tokens;
    add_metrics(out.metrics, facts);
  }
  return out;
}

// transformers' evaluation: each batch's own mean, repeated for its rows, then the mean over rows.
EvalFacts SftMethod::evaluate() {
  const auto start = std::chrono::steady_clock::now();
  const auto row_count = static_cast<std::int64_t>(eval_->rows.size());
  EvalFacts out;
  MetricMeans means;
  double loss = 0;
  for (std::int64_t begin = 0; begin < row_count; begin += plan_.per_device_eval_batch_size) {
    std::vector<std::int64_t> rows(
        static_cast<std::size_t>(std::min(plan_.per_device_eval_batch_size, row_count - begin)));
    std::iota(rows.begin(), rows.end(), begin);
    const ScoredFacts facts =
        score_batch(model_, data::make_batch(eval_->examples, eval_->rows, rows), {}, form_);
    const auto size = static_cast<double>(rows.size());
    loss += size * facts.nll_sum / static_cast<double>(std::max<std::int64_t>(1, facts.scored));
    std::vector<NamedValue> values;
    add_metrics(values, facts);
    for (const auto& [name, value] : values) means.add(name, value);
    out.batches += 1;
  }
  out.rows = row_count;
  out.metrics = {{"loss", loss / static_cast<double>(row_count)}};
  for (auto& value : means.values()) out.metrics.push_back(std::move(value));
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

double SftMethod::epoch_after(std::int64_t step) const {
  return data::epoch_at(order_, step);
}

}  // namespace hone::train
