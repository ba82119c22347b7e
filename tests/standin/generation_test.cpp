// Generation on the stand-in: the CPU's tokens, and one copy of logits to the host a forward.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/files/weight_source.h"
#include "ops/machine/device_memory.h"
#include "rollout/generate.h"
#include "standin/standin.h"

namespace hone::standin {
namespace generation_test {

using rollout::Completion;
using Ids = std::vector<std::int32_t>;

model::CausalLm tiny(const char* name, at::Device on) {
  const base::fs::path folder = base::fs::path(HONE_FIXTURES) / "parity" / name;
  return model::CausalLm(*model::open_weights(folder), {}, model::Storage::kPacked, {}, on);
}

Ids some_prompt(std::int32_t length, std::int32_t salt) {
  Ids ids;
  for (std::int32_t i = 0; i < length; ++i) ids.push_back(3 + (i * i + i * salt + salt) % 45);
  return ids;
}

rollout::GenerateOptions sampling(bool share) {
  rollout::GenerateOptions options;
  options.max_new_tokens = 5;
  options.samples = 2;
  options.seed = 7;
  options.batch_size = 6;
  options.entropies = true;
  options.sampler.temperature = 0.9;
  options.sampler.top_p = 0.9;
  options.share_prompt = share;
  return options;
}

void expect_close(const std::vector<Completion>& expected, const std::vector<Completion>& found) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found[i].ids, expected[i].ids) << "completion " << i;
    for (std::size_t t = 0; t < expected[i].ids.size(); ++t) {
      EXPECT_NEAR(found[i].logprobs[t], expected[i].logprobs[t], 1e-5);
      EXPECT_NEAR(found[i].sampled_logprobs[t], expected[i].sampled_logprobs[t], 1e-5);
      EXPECT_NEAR(found[i].entropies[t], expected[i].entropies[t], 1e-5);
    }
  }
}

// A prompt longer than a tile of keys, one of a single token, one between.
const std::vector<Ids> kPrompts = {some_prompt(70, 1), some_prompt(1, 2), some_prompt(17, 5)};
// Of those, what a family can take with the tokens that follow.
std::vector<Ids> prompts_of(const std::string& family) {
  std::vector<Ids> out = kPrompts;
  if (family == "tiny_phi3_short") out.erase(out.begin());
  return out;
}

class OfAFamily : public testing::TestWithParam<std::string> {};

TEST_P(OfAFamily, GivesTheCpusTokens) {
  const std::vector<Ids> prompts = prompts_of(GetParam());
  const model::CausalLm cpu = tiny(GetParam().c_str(), at::kCPU), here = tiny(GetParam().c_str(), device());
  EXPECT_EQ(here.device(), device());
  for (const bool share : {false, true}) {
    expect_close(generate(cpu, prompts, sampling(share)), generate(here, prompts, sampling(share)));
  }
  rollout::GenerateOptions greedy = sampling(true);
  greedy.sampler = {};
  greedy.samples = 1;
  expect_close(generate(cpu, prompts, greedy), generate(here, prompts, greedy));
}

// In bf16 the products' order of additions may turn a token: what both devices found until then is the same to rounding.
TEST_P(OfAFamily, InBf16IsTheCpusToRounding) {
  const std::vector<Ids> prompts = prompts_of(GetParam());
  const base::fs::path folder = base::fs::path(HONE_FIXTURES) / "parity" / GetParam();
  const model::DtypePolicy dtypes{.linear = at::kBFloat16, .residual = at::kFloat};
  const auto open = [&](at::Device on) {
    return model::CausalLm(*model::open_weights(folder), dtypes, model::Storage::kPacked, {}, on);
  };
  const auto cpu = generate(open(at::kCPU), prompts, sampling(true));
  const auto here = generate(open(device()), prompts, sampling(true));
  ASSERT_EQ(here.size(), cpu.size());
  double off = 0;
  std::int64_t compared = 0;
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    for (std::size_t t = 0; t < std::min(cpu[i].ids.size(), here[i].ids.size()); ++t) {
      if (here[i].ids[t] != cpu[i].ids[t]) break;
      off += std::fabs(here[i].logprobs[t] - cpu[i].logprobs[t]);
      compared += 1;
    }
  }
  EXPECT_GT(compared, static_cast<std::int64_t>(prompts.size()) * 5)
      << "of " << prompts.size() * 10 << " tokens";
  EXPECT_LE(off / static_cast<double>(compared), 2e-2);
}

INSTANTIATE_TEST_SUITE_P(Generation, OfAFamily,
                         testing::Values("tiny_llama", "tiny_llama3", "tiny_qwen2", "tiny_qwen2_windows",
                                         "tiny_qwen3", "tiny_qwen3_yarn", "tiny_qwen3_5", "tiny_qwen3_moe",
                                         "tiny_phi3", "tiny_phi3_short", "tiny_ministral3", "tiny_mistral",
                                         "tiny_mixtral", "tiny_gemma", "tiny_gemma2", "tiny_gemma3",
                                         "tiny_gemma4", "tiny_smollm3", "tiny_granite", "tiny_granite4",
                                         "tiny_granite4_nope", "tiny_granitemoe", "tiny_olmo2", "tiny_olmo3",
                                         "tiny_olmoe", "tiny_lfm2", "tiny_lfm2_bias", "tiny_exaone4"),
                         [](const auto& one) { return one.param; });

TEST(Generation, AForwardCopiesItsLogitsAndNothingElseBack) {
  const model::CausalLm model = tiny("tiny_llama", device());
  rollout::GenerateOptions options = sampling(false);
  options.samples = 1;
  const auto counted = [&](std::int64_t tokens) {
    options.max_new_tokens = tokens;
    const Counts before = counts();
    generate(model, {some_prompt(9, 5)}, options);
    return counts() - before;
  };
  const Counts few = counted(4), more = counted(7), three_tokens = more - few;
  EXPECT_EQ(three_tokens.to_host, 3);
  EXPECT_EQ(three_tokens.synchronizations(), 3);
  EXPECT_EQ(three_tokens.staged, 3 * 2) << "ids and positions";
}

TEST(Generation, TheModelsMemoryIsTheDevices) {
  const std::int64_t before = ops::device_memory(device()).in_use;
  const model::CausalLm model = tiny("tiny_llama", device());
  EXPECT_GE(ops::device_memory(device()).in_use - before, model.parameter_bytes());
}

}  // namespace generation_test
}  // namespace hone::standin
