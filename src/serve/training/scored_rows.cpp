#include "serve/training/scored_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/fused_linear.h"
#include "ops/head/linear_logprob.h"
#include "ops/index_tensor.h"

namespace hone::serve {
namespace {

constexpr std::int64_t kTileRows = 128;  // with a LoRA on the head: 128 x 152k fp32 logits are 78 MB

// Targets of one kind: their places in [N K].
struct Places {
  std::vector<std::int64_t> place, row, target;
  std::int64_t size() const { return static_cast<std::int64_t>(place.size()); }
};

// Those with a gradient, and the others.
std::pair<Places, Places> divided(const RowTargets& targets) {
  std::pair<Places, Places> out;
  for (std::size_t i = 0; i < targets.targets.size(); ++i) {
    const bool with = !targets.has_gradient.empty() && targets.has_gradient[i];
    Places& to = with ? out.first : out.second;
    to.place.push_back(static_cast<std::int64_t>(i));
    to.row.push_back(static_cast<std::int64_t>(i) / targets.columns);
    to.target.push_back(targets.targets[i]);
  }
  return out;
}

at::Tensor rows_at(const at::Tensor& hidden, const Places& places) {
  return hidden.index_select(0, ops::index_tensor(places.row, hidden.device()));
}

void put(std::vector<float>& to, const Places& places, const at::Tensor& values, std::int64_t from = 0) {
  const at::Tensor host = values.to(at::kCPU).contiguous();
  const auto* const numbers = host.const_data_ptr<float>();
  for (std::int64_t i = 0; i < host.numel(); ++i)
    to[static_cast<std::size_t>(places.place[static_cast<std::size_t>(from + i)])] = numbers[i];
}

at::Tensor derivatives(const std::vector<float>& all, const Places& places, at::Device device) {
  std::vector<float> out;
  for (const std::int64_t place : places.place) out.push_back(all[static_cast<std::size_t>(place)]);
  return ops::staged(at::tensor(out, at::kFloat), device);
}

at::Tensor plain_head(const model::CausalLm& model, const at::Tensor& hidden, const RowTargets& targets,
                      const DerivativeOf& derivative_of) {
  const auto [with, without] = divided(targets);
  std::vector<float> logprobs(targets.targets.size());
  const auto run = [&](const Places& places, bool gradient) {
    ops::TokenLogprobs found = ops::linear_logprob(
        rows_at(hidden, places), model.head(true), ops::index_tensor(places.target, hidden.device()),
        {.gradient = gradient, .soft_cap = model.config().logits_soft_cap});
    put(logprobs, places, found.logprob);
    return found.gradient;
  };
  if (without.size() > 0) run(without, false);
  at::Tensor gradient;
  if (with.size() > 0) gradient = run(with, true);
  const std::vector<float> d = derivative_of(logprobs);
  if (d.empty() || !gradient.defined()) return {};
  gradient.mul_(derivatives(d, with, hidden.device()).unsqueeze(1));
  const at::Tensor out = at::zeros({hidden.size(0), hidden.size(1)}, gradient.options());
  return out.index_add_(0, ops::index_tensor(with.row, hidden.device()), gradient);
}

// Rows [begin, begin + count) of the hidden rows through a head with a LoRA.
class LoraTile {
 public:
  LoraTile(const model::CausalLm& model, const at::Tensor& hidden, const RowTargets& targets,
           std::int64_t begin, std::int64_t count)
      : model_(model),
        x_(hidden.narrow(0, begin, count)),
        logits_(model.logits(x_)),
        targets_(
            at::tensor(std::vector<std::int64_t>(targets.targets.begin() + begin * targets.columns,
                                                 targets.targets.begin() + (begin + count) * targets.columns),
                       at::kLong)
                .view({count, targets.columns})
                .to(hidden.device())) {}

  // [count, K]
  at::Tensor logprobs() {
    std::vector<at::Tensor> columns;
    for (std::int64_t k = 0; k < targets_.size(1); ++k) {
      const ops::TokenLogprobs found = ops::logprob_of(logits_, targets_.select(1, k).contiguous());
      columns.push_back(found.logprob);
      log_sum_ = found.log_sum;
    }
    return at::stack(columns, 1);
  }

  // d [count, K] to the gradient of the LoRA, and of the hidden rows, [count, H]. After logprobs().
  at::Tensor backward(const at::Tensor& d) {
    at::Tensor d_logits = logits_.sub(log_sum_.unsqueeze(1)).exp_().mul_(d.sum(1, true).neg_());
    d_logits.scatter_add_(1, targets_, d);
    if (const double cap = model_.config().logits_soft_cap; cap > 0)
      d_logits.mul_(1 - logits_.div(cap).square_());
    const ops::Linear& head = model_.head_linear();
    const ops::PassContext pass;
    const at::Tensor read = x_.to(model_.head().dtype());
    const ops::LinearGradient gradient = {.linear = &head,
                                          .d_out = d_logits.to(model_.head().dtype()),
                                          .lora_a_out = ops::lora_a_forward(head, read, pass)};
    const at::Tensor out = at::empty_like(read);
    ops::linears_backward(out, {&gradient, 1}, read, pass);
    return out.to(at::kFloat);
  }

 private:
  const model::CausalLm& model_;
  at::Tensor x_, logits_, targets_, log_sum_;
};

// The backward makes the tiles of which some target has a gradient again.
at::Tensor lora_head(const model::CausalLm& model, const at::Tensor& hidden, const RowTargets& targets,
                     const DerivativeOf& derivative_of) {
  const std::int64_t rows = hidden.size(0);
  std::vector<float> logprobs;
  logprobs.reserve(targets.targets.size());
  for (std::int64_t begin = 0; begin < rows; begin += kTileRows) {
    LoraTile tile(model, hidden, targets, begin, std::min(kTileRows, rows - begin));
    const at::Tensor found = tile.logprobs().cpu().contiguous();
    logprobs.insert(logprobs.end(), found.const_data_ptr<float>(),
                    found.const_data_ptr<float>() + found.numel());
  }
  const std::vector<float> d = derivative_of(logprobs);
  if (d.empty() || std::all_of(d.begin(), d.end(), [](float one) { return one == 0; })) return {};
  const at::Tensor all =
      ops::staged(at::tensor(d, at::kFloat), hidden.device()).view({rows, targets.columns});
  const at::Tensor out = at::zeros({rows, hidden.size(1)}, hidden.options().dtype(at::kFloat));
  for (std::int64_t begin = 0; begin < rows; begin += kTileRows) {
    const std::int64_t count = std::min(kTileRows, rows - begin);
    const at::Tensor here = all.narrow(0, begin, count);
    if (!here.ne(0).any().item<bool>()) continue;
    LoraTile tile(model, hidden, targets, begin, count);
    tile.logprobs();
    out.narrow(0, begin, count).copy_(tile.backward(here));
  }
  return out;
}

}  // namespace

data::Batch one_sequence(const std::vector<std::int32_t>& tokens) {
  data::Batch batch;
  batch.ids.assign(tokens.begin(), tokens.end());
  batch.positions.resize(tokens.size());
  std::iota(batch.positions.begin(), batch.positions.end(), 0);
  batch.segments.push_back({.begin = 0, .end = static_cast<std::int64_t>(tokens.size())});
  return batch;
}

at::Tensor score_rows(const model::CausalLm& model, const at::Tensor& hidden, const RowTargets& targets,
                      const DerivativeOf& derivative_of) {
  const at::NoGradGuard no_grad;
  base::require(static_cast<std::int64_t>(targets.targets.size()) == hidden.size(0) * targets.columns,
                "serve::score_rows", "targets of every row");
  return model.head_linear().lora ? lora_head(model, hidden, targets, derivative_of)
                                  : plain_head(model, hidden, targets, derivative_of);
}

}  // namespace hone::serve
