// Generation in bf16 with the table of GPUs: each token's log-probability is as near to what the model says in fp32 as the
// CPU's. Both round at places of their own, so that their tokens differ, and each is held against its own.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/files/weight_source.h"
#include "rollout/generate.h"
#include "standin/cuda_only.h"
#include "standin/families.h"
#include "standin/standin.h"

namespace hone::standin {
namespace rounding_test {

using rollout::Completion;
using Ids = std::vector<std::int32_t>;

constexpr double kTemperature = 0.9;
constexpr std::int64_t kSamples = 4;

model::CausalLm open(const std::string& family, model::DtypePolicy dtypes, at::Device on) {
  const base::fs::path folder = base::fs::path(HONE_FIXTURES) / "parity" / family;
  return model::CausalLm(*model::open_weights(folder), dtypes, model::Storage::kPacked, {}, on);
}

std::vector<Completion> completions(const model::CausalLm& model, const std::vector<Ids>& prompts) {
  rollout::GenerateOptions options;
  options.max_new_tokens = 6;
  options.samples = kSamples;
  options.seed = 7;
  options.batch_size = 6;
  options.sampler.temperature = kTemperature;
  options.share_prompt = true;
  return generate(model, prompts, options);
}

// What `exact` says of the tokens behind a prompt.
at::Tensor logprobs_of(const model::CausalLm& exact, const Ids& prompt, const Ids& ids) {
  const at::NoGradGuard no_grad;
  data::Batch batch;
  for (const Ids* const part : {&prompt, &ids}) batch.ids.insert(batch.ids.end(), part->begin(), part->end());
  const auto length = static_cast<std::int64_t>(batch.ids.size()),
             known = static_cast<std::int64_t>(prompt.size());
  for (std::int64_t i = 0; i < length; ++i) batch.positions.push_back(i);
  batch.labels.assign(batch.ids.size(), data::kIgnore);
  batch.segments.push_back({.begin = 0, .end = length});
  const at::Tensor rows = exact.hidden(batch, {}).narrow(0, known - 1, length - known);
  const at::Tensor all = at::log_softmax(exact.logits(rows).to(at::kDouble) / kTemperature, 1);
  return all.gather(1, at::tensor(batch.ids).narrow(0, known, length - known).unsqueeze(1)).squeeze(1);
}

// The root of the mean square of what rounding adds, over all tokens.
double rounding(const model::CausalLm& exact, const std::vector<Ids>& prompts,
                const std::vector<Completion>& found) {
  double squares = 0;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const at::Tensor off =
        at::tensor(found[i].logprobs) - logprobs_of(exact, prompts[i / kSamples], found[i].ids);
    squares += off.square().sum().item<double>();
    tokens += off.numel();
  }
  return std::sqrt(squares / static_cast<double>(tokens));
}

class RoundingOf : public testing::TestWithParam<std::string> {};

TEST_P(RoundingOf, RoundsNoMoreThanTheCpu) {
  const std::vector<Ids> prompts = prompts_of(GetParam());
  const model::DtypePolicy narrow{.linear = at::kBFloat16, .residual = at::kFloat};
  const model::CausalLm exact = open(GetParam(), {}, at::kCPU);
  const double cpu = rounding(exact, prompts, completions(open(GetParam(), narrow, at::kCPU), prompts));
  EXPECT_GT(cpu, 0);
  const UseCudaTable table;
  const double here = rounding(exact, prompts, completions(open(GetParam(), narrow, device()), prompts));
  EXPECT_LE(here, 1.5 * cpu);
}

INSTANTIATE_TEST_SUITE_P(Families, RoundingOf, testing::ValuesIn(families_of_a_day()),
                         [](const auto& one) { return one.param; });
INSTANTIATE_TEST_SUITE_P(SlowFamilies, RoundingOf, testing::ValuesIn(families_of_slow_tests()),
                         [](const auto& one) { return one.param; });

}  // namespace rounding_test
}  // namespace hone::standin
