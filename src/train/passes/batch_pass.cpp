#include "train/passes/batch_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "ops/index_tensor.h"

namespace hone::train {

BatchPass::BatchPass(const model::CausalLm& model, const data::Batch& batch, const RngKey& key,
                     const PassForm& form, const std::vector<float>& weights)
    : model_(model),
      batch_(batch),
      form_(form),
      token_rows_(batch.ids.size()),
      context_{.training = key.training,
               .adapters_on = key.adapters_on,
               .seed = key.seed,
               .step = key.step,
               .token_row = &token_rows_,
               .token_position = &batch.positions,
               .embedding_noise = key.embedding_noise} {
  for (const data::Segment& segment : batch.segments) {
    std::fill(token_rows_.begin() + segment.begin, token_rows_.begin() + segment.end, segment.row);
  }
  if (weights.empty()) return;
  load_ = {.weights = ops::staged(at::tensor(weights, at::kFloat), model.device()),
           .weight_sum = std::accumulate(weights.begin(), weights.end(), 0.0)};
}

at::Tensor BatchPass::forward(const std::vector<std::int64_t>& rows, bool trains) {
  rows_ = rows;
  if (form_.is_fused) {
    const at::NoGradGuard no_grad;
    fused_.emplace(model_, batch_, context_, load_);
    return fused_
        ->forward(ops::index_tensor(rows, at::kCPU), trains ? std::optional(form_.recompute) : std::nullopt)
        .to(model_.head().dtype());
  }
  const at::AutoGradMode grad_mode(trains);
  load_.clear();
  autograd_ =
      model_.hidden(batch_, context_, &load_).index_select(0, ops::index_tensor(rows, model_.device()));
  return autograd_.detach().to(model_.head().dtype());
}

const ops::PassContext& BatchPass::head_context(std::int64_t begin, std::int64_t count) {
  head_rows_.clear();
  head_positions_.clear();
  for (std::int64_t i = begin; i < begin + count; ++i) {
    const auto token = static_cast<std::size_t>(rows_.at(static_cast<std::size_t>(i)));
    head_rows_.push_back(token_rows_[token]);
    head_positions_.push_back(batch_.positions[token]);
  }
  head_context_ = context_;
  head_context_.token_row = &head_rows_;
  head_context_.token_position = &head_positions_;
  return head_context_;
}

void BatchPass::backward(at::Tensor d, double balance) {
  if (form_.is_fused) {
    const at::NoGradGuard no_grad;
    fused_->backward(std::move(d), balance);
  } else {
    if (balance != 0 && load_.defined()) {
      const at::Tensor loss = load_.loss() * balance;
      if (loss.requires_grad())
        loss.backward({}, /*retain_graph=*/true);  // else nothing trained is before a router
    }
    autograd_.backward(d.to(autograd_.scalar_type()));
  }
}

}  // namespace hone::train
