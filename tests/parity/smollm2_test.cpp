// SmolLM2-135M in fp32 with the deterministic adapter against transformers + PEFT: logits at fixed places,
// the loss, and each of 420 gradient tensors by norm, samples and random-sign projections. Golden:
// record_smollm2.py.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "adapters/lora.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "parity/golden.h"
#include "train/passes/scored_pass.h"

namespace hone::parity {
namespace smollm2_test {

namespace fs = base::fs;
constexpr double kBound = 1e-4;

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

double projection(const double* gradient, std::int64_t size, std::uint64_t p) {
  double sum = 0;
  for (std::int64_t e = 0; e < size; ++e) {
    const bool minus = (splitmix64(8 * static_cast<std::uint64_t>(e) + p) & 1U) != 0;
    sum += minus ? -gradient[e] : gradient[e];
  }
  return sum;
}

TEST(SmolLm2, LogitsLossAndEveryGradientEqualTransformersAndPeft) {
  const fs::path gguf = smollm2_gguf();
  if (gguf.empty()) GTEST_SKIP() << "not run: ./quickstart or ./test fetches SmolLM2";
  const Golden golden(fs::path(HONE_FIXTURES) / "parity/smollm2.safetensors");
  model::CausalLm model(*model::open_weights(gguf), {});
  auto adapter = attach_rule_adapter(model);

  std::vector<data::Batch> parts;
  Margin logits_margin("SmolLM2 logits", kBound);
  const at::Tensor vocabulary = golden.tensor("vocabulary");
  for (const std::string n : {"0", "1"}) {
    parts.push_back(single(golden.tensor("ids_" + n), golden.tensor("labels_" + n)));
    const at::Tensor positions = golden.tensor("positions_" + n);
    const at::NoGradGuard no_grad;
    const at::Tensor on = model.logits(model.hidden(parts.back(), {}));
    const at::Tensor off = model.logits(model.hidden(parts.back(), {.adapters_on = false}));
    const auto pick = [&](const at::Tensor& logits) {
      return logits.index_select(0, positions).index_select(1, vocabulary);
    };
    logits_margin.compare("logits_" + n, pick(on), golden.tensor("logits_" + n));
    logits_margin.compare("base_logits_" + n, pick(off), golden.tensor("base_logits_" + n));
    logits_margin.compare("logsumexp_" + n, on.logsumexp(-1), golden.tensor("logsumexp_" + n));
  }

  const auto scored = static_cast<double>(train::scored_tokens(concat(parts)));
  double loss = 0;
  for (const data::Batch& part : parts) {
    loss += train::score_and_backward(model, part, {.training = true}, scored).nll_sum / scored;
  }
  Margin margin("SmolLM2 gradients", kBound);
  margin.compare("loss", loss, golden.tensor("loss").item<double>());
  const at::Tensor norms = golden.tensor("grad_norm");
  const at::Tensor indices = golden.tensor("grad_index");
  const at::Tensor samples = golden.tensor("grad_sample").to(at::kDouble);
  const at::Tensor projections = golden.tensor("grad_projection");
  ASSERT_EQ(static_cast<std::int64_t>(adapter.tensors().size()), norms.size(0));
  for (std::int64_t g = 0; g < norms.size(0); ++g) {
    const auto& tensor = adapter.tensors()[static_cast<std::size_t>(g)];
    const at::Tensor gradient = tensor.value.grad().reshape(-1).to(at::kDouble).contiguous();
    const double norm = norms[g].item<double>();
    margin.compare(tensor.name + " norm", gradient.norm().item<double>(), norm);
    // Samples against the tensor's root mean square: one element's own size may be near zero.
    const double rms = norm / std::sqrt(static_cast<double>(gradient.numel()));
    const double sample_error =
        (gradient.index_select(0, indices[g]) - samples[g]).abs().max().item<double>();
    EXPECT_LE(sample_error, 20 * kBound * rms) << tensor.name;
    // The projected difference's root mean square estimates |ours - theirs|.
    double squares = 0;
    for (std::uint64_t p = 0; p < 8; ++p) {
      const double ours = projection(gradient.const_data_ptr<double>(), gradient.numel(), p);
      const double difference = ours - projections[g][static_cast<std::int64_t>(p)].item<double>();
      squares += difference * difference / 8;
    }
    margin.note(tensor.name + " |difference| / |gradient|", std::sqrt(squares) / norm);
  }
}

}  // namespace smollm2_test
}  // namespace hone::parity
