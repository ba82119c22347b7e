// The head: log-probabilities without logits for scored rows, logits for a sampler.
#include <ATen/ATen.h>

#include <memory>

#include "bench/ops_cases.h"
#include "bench/work.h"
#include "ops/head/linear_logprob.h"

namespace hone::bench {

namespace {

std::shared_ptr<ops::Weight> head_of(const model::ModelConfig& config, bool packed) {
  const at::Tensor plain = random_bf16({config.vocab_size, config.hidden_size});
  return std::make_shared<ops::Weight>(packed ? ops::Weight::packed_where_possible(plain)
                                              : ops::Weight(plain));
}

at::Tensor targets(const model::ModelConfig& config, std::int64_t rows) {
  return at::randint(config.vocab_size, {rows}, at::kLong);
}

Case logprob(const model::ModelConfig& config, std::int64_t rows, bool gradient, bool packed) {
  const auto head = head_of(config, packed);
  const at::Tensor hidden = random_bf16({rows, config.hidden_size}), wanted = targets(config, rows);
  return {.flop = (gradient ? 4 : 2) * head_weights(config) * static_cast<double>(rows),
          .run = [=] { ops::linear_logprob(hidden, *head, wanted, {.gradient = gradient}); }};
}

Case entropy(const model::ModelConfig& config, std::int64_t rows) {
  const auto head = head_of(config, false);
  const at::Tensor hidden = random_bf16({rows, config.hidden_size}), d = at::randn({rows});
  const ops::TokenLogprobs facts = ops::linear_logprob(hidden, *head, targets(config, rows));
  return {.flop = 4 * head_weights(config) * static_cast<double>(rows),
          .run = [=] { ops::entropy_backward(hidden, *head, facts.log_sum, facts.entropy, d); }};
}

Case logits(const model::ModelConfig& config, std::int64_t rows, bool packed) {
  const auto head = head_of(config, packed);
  const at::Tensor hidden = random_bf16({rows, config.hidden_size});
  return {.bytes = 2 * head_weights(config) + 4 * static_cast<double>(rows * config.vocab_size),
          .run = [=] { ops::head_logits(hidden, *head); }};
}

Case facts(const model::ModelConfig& config, std::int64_t rows) {
  const at::Tensor values = at::randn({rows, config.vocab_size}), wanted = targets(config, rows);
  return {.bytes = 4 * static_cast<double>(values.numel()), .run = [=] { ops::logprob_of(values, wanted); }};
}

}  // namespace

std::vector<Entry> head_entries(const OpsShape& shape) {
  const model::ModelConfig config = shape.config;
  std::vector<Entry> out;
  for (const bool packed : {false, true}) {
    const std::string kind = packed ? " packed " : " plain ";
    const std::string size = std::to_string(shape.tokens / 2) + " rows";
    out.push_back({"linear_logprob gradient" + kind + size,
                   [=, rows = shape.tokens / 2] { return logprob(config, rows, true, packed); }});
    for (const std::int64_t rows : {1, 8, 16}) {
      out.push_back({"head_logits" + kind + std::to_string(rows) + " rows",
                     [=] { return logits(config, rows, packed); }});
    }
  }
  const std::int64_t all = shape.tokens - shape.tokens / shape.length;
  out.push_back({"linear_logprob plain " + std::to_string(shape.tokens / 2) + " rows",
                 [=, rows = shape.tokens / 2] { return logprob(config, rows, false, false); }});
  out.push_back({"linear_logprob gradient plain " + std::to_string(all) + " rows",
                 [=] { return logprob(config, all, true, false); }});
  out.push_back({"entropy_backward plain " + std::to_string(shape.tokens / 2) + " rows",
                 [=, rows = shape.tokens / 2] { return entropy(config, rows); }});
  out.push_back({"logprob_of 8 rows", [=] { return facts(config, 8); }});
  return out;
}

}  // namespace hone::bench
