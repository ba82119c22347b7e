#include "serve/prompt_scores.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"
#include "model/fused_pass.h"
#include "ops/head/linear_logprob.h"

namespace hone::serve {

namespace {

constexpr std::int64_t kRows = 32;  // of logits at once: 20 MB of a vocabulary of 152,000

class ScoreWork : public Work {
 public:
  ScoreWork(const model::CausalLm& model, ScoreJob job) : model_(model), job_(std::move(job)) {}

  bool step() override {
    if (job_.is_wanted && !job_.is_wanted()) return false;
    try {
      job_.on_done(scores());
    } catch (...) {
      job_.on_error(std::current_exception());
    }
    return false;
  }

 private:
  PromptScores scores() const {
    const at::NoGradGuard no_grad;
    const auto tokens = static_cast<std::int64_t>(job_.ids.size());
    base::require(tokens > 1 && job_.from >= 1 && job_.from < tokens, "serve::score_prompt",
                  "a token behind another");
    model_.require_ids(job_.ids);
    data::Batch batch;
    batch.ids.assign(job_.ids.begin(), job_.ids.end());
    batch.positions.resize(job_.ids.size());
    for (std::size_t i = 0; i < batch.positions.size(); ++i)
      batch.positions[i] = static_cast<std::int64_t>(i);
    batch.segments = {{.begin = 0, .end = tokens}};
    const ops::AdapterRows rows = {.begin = 0, .end = tokens, .sides = job_.version.get()};
    ops::PassContext pass;
    if (job_.version) pass.adapter_rows = {&rows, 1};
    model::FusedPass forward(model_, batch, pass);
    const at::Tensor hidden = forward.forward(at::arange(job_.from - 1, tokens - 1, at::kLong), std::nullopt);
    PromptScores out;
    for (std::int64_t begin = 0; begin < hidden.size(0); begin += kRows)
      add(out, hidden.narrow(0, begin, std::min(kRows, hidden.size(0) - begin)), job_.from + begin);
    return out;
  }

  // `hidden` [n, H] predicts tokens first, first + 1, ...
  void add(PromptScores& out, const at::Tensor& hidden, std::int64_t first) const {
    const std::int64_t count = hidden.size(0);
    const ops::AdapterRows rows = {.begin = 0, .end = count, .sides = job_.version.get()};
    ops::PassContext pass;
    if (job_.version) pass.adapter_rows = {&rows, 1};
    const at::Tensor logits = model_.logits(hidden, pass).cpu().contiguous();
    const at::Tensor targets = at::empty({count}, at::kLong);
    for (std::int64_t i = 0; i < count; ++i)
      targets.data_ptr<std::int64_t>()[i] = job_.ids[static_cast<std::size_t>(first + i)];
    const ops::TokenLogprobs facts = ops::logprob_of(logits, targets);
    const at::Tensor logprobs = facts.logprob.contiguous(), log_sums = facts.log_sum.contiguous();
    const auto vocabulary = static_cast<std::size_t>(logits.size(1));
    for (std::int64_t i = 0; i < count; ++i) {
      out.logprobs.push_back(logprobs.const_data_ptr<float>()[i]);
      if (job_.top == 0) continue;
      const float* const row = logits.const_data_ptr<float>() + static_cast<std::size_t>(i) * vocabulary;
      out.top.push_back(top_tokens({row, vocabulary}, log_sums.const_data_ptr<float>()[i], job_.top));
    }
  }

  const model::CausalLm& model_;
  const ScoreJob job_;
};

}  // namespace

std::unique_ptr<Work> score_prompt(const model::CausalLm& model, ScoreJob job) {
  return std::make_unique<ScoreWork>(model, std::move(job));
}

float log_sum_of(std::span<const float> logits) {
  const at::NoGradGuard no_grad;  // in every thread
  // Nothing is written to it.
  const at::Tensor row = at::from_blob(const_cast<float*>(logits.data()),
                                       {1, static_cast<std::int64_t>(logits.size())}, at::kFloat);
  return ops::logprob_of(row, at::zeros({1}, at::kLong)).log_sum.item<float>();
}

TopTokens top_tokens(std::span<const float> logits, float log_sum, std::int64_t k) {
  const auto better = [](const auto& a, const auto& b) {
    return a.second > b.second || (a.second == b.second && a.first < b.first);
  };
  TopTokens out;  // a heap whose first is the worst
  const auto most = static_cast<std::size_t>(k);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (out.size() == most && (most == 0 || logits[i] <= out.front().second)) continue;
    if (out.size() == most) {
      std::pop_heap(out.begin(), out.end(), better);
      out.pop_back();
    }
    out.emplace_back(static_cast<std::int32_t>(i), logits[i]);
    std::push_heap(out.begin(), out.end(), better);
  }
  std::sort(out.begin(), out.end(), better);
  for (auto& [id, value] : out) value -= log_sum;
  return out;
}

}  // namespace hone::serve
