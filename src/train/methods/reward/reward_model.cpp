#include "train/methods/reward/reward_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "learn/reward_loss.h"
#include "ops/index_tensor.h"

namespace hone::train::reward {

namespace {

// Of no record, or of all: of several sets to evaluate some may have none, which is 0.
std::vector<double> margins_of(const std::vector<data::RecordView>& records) {
  std::vector<double> out;
  bool any = false;
  for (const data::RecordView& record : records) {
    out.push_back(record.margin.value_or(0));
    any = any || record.margin;
  }
  return any ? out : std::vector<double>();
}

}  // namespace

RewardPass make_reward_pass(const std::vector<data::RecordView>& records, bool share_prompt,
                            std::int64_t row_base) {
  RewardPass out;
  data::Batch& batch = out.batch;
  const auto append = [&](std::span<const std::int32_t> ids, std::int64_t position) {
    for (const std::int32_t id : ids) {
      batch.ids.push_back(id);
      batch.positions.push_back(position++);
    }
  };
  const auto close = [&](std::int64_t begin, std::int64_t row, std::int64_t prefix) {
    const auto end = static_cast<std::int64_t>(batch.ids.size());
    batch.segments.push_back({.begin = begin, .end = end, .row = row, .prefix = prefix});
    return static_cast<std::int64_t>(batch.segments.size()) - 1;
  };
  for (const data::RecordView& record : records) {
    const data::SequencePair pair = data::sides_of(record);
    const bool shared = share_prompt && pair.shares_context() && !pair.first.context.empty();
    std::int64_t prefix = data::kNoPrefix;
    if (shared) {
      const auto begin = static_cast<std::int64_t>(batch.ids.size());
      append(pair.first.context, 0);
      prefix = close(begin, row_base + static_cast<std::int64_t>(out.last.size()), data::kNoPrefix);
    }
    for (const data::ScoredSequence& side : {pair.first, pair.second}) {
      const auto begin = static_cast<std::int64_t>(batch.ids.size());
      if (!shared) append(side.context, 0);
      append(side.scored, std::ssize(side.context));
      close(begin, row_base + static_cast<std::int64_t>(out.last.size()), prefix);
      out.last.push_back(static_cast<std::int64_t>(batch.ids.size()) - 1);
      out.tokens += std::ssize(side.context) + side.completion;
    }
  }
  batch.labels.assign(batch.ids.size(), data::kIgnore);
  return out;
}

RewardModel::RewardModel(RecordParts parts) : PairMethod(std::move(parts)) {
  base::require(parts_.model.score_head().defined(), "RewardModel", "a model with a score head");
}

BatchLoss RewardModel::run_pairs(const PairBatch& batch) const {
  const at::NoGradGuard no_grad;
  const RewardPass one = make_reward_pass(batch.records, shares(), batch.row_base);
  const at::Tensor& score = parts_.model.score_head();
  BatchPass pass(parts_.model, one.batch, batch.key, parts_.form);
  const at::Tensor hidden = pass.forward(one.last, batch.loss_scale.has_value()).to(at::kFloat);
  learn::RewardGradient found =
      learn::reward_gradient(at::linear(hidden, score).squeeze(1), margins_of(batch.records),
                             plan_.reward.center_rewards_coefficient);
  if (batch.loss_scale) {
    // [2B, 1]
    const at::Tensor d =
        ops::staged((found.d_score * *batch.loss_scale).to(at::kFloat), hidden.device()).unsqueeze(1);
    at::Tensor head = score.grad();
    head.addmm_(d.t(), hidden);
    pass.backward(d * score);
  }
  return {.loss = found.loss,
          .tokens = one.tokens,
          .metrics = std::move(found.metrics),
          .nll = found.loss,
          .passed = static_cast<std::int64_t>(one.batch.ids.size()),
          .scored = static_cast<std::int64_t>(one.last.size())};
}

}  // namespace hone::train::reward
