// Generation on the stand-in: the CPU's tokens, and one copy of logits to the host a forward.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/files/weight_source.h"
#include "ops/machine/device_memory.h"
#include "rollout/generate.h"
#include "rollout/random_requests.h"
#include "standin/families.h"
#include "standin/standin.h"

namespace hone::standin {
namespace generation_test {

using rollout::Completion;
using Ids = std::vector<std::int32_t>;

model::CausalLm tiny(const char* name, at::Device on) {
  const base::fs::path folder = base::fs::path(HONE_FIXTURES) / "parity" / name;
  return model::CausalLm(*model::open_weights(folder), {}, model::Storage::kPacked, {}, on);
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

INSTANTIATE_TEST_SUITE_P(Generation, OfAFamily, testing::ValuesIn(families_of_a_day()),
                         [](const auto& one) { return one.param; });
INSTANTIATE_TEST_SUITE_P(GenerationSlow, OfAFamily, testing::ValuesIn(families_of_slow_tests()),
                         [](const auto& one) { return one.param; });

// libtorch's products may differ in the last bits with the number of rows.
TEST(Generation, RequestsAreAsAlone) {
  for (const char* const family : {"tiny_llama", "tiny_lfm2", "tiny_qwen3_5"}) {
    SCOPED_TRACE(family);
    const model::CausalLm model = tiny(family, device());
    const std::vector<test_tools::Play> plays = test_tools::drawn_plays(12, 4, 384, /*longest=*/20);
    const rollout::EngineOptions options = {
        .batch_size = 4, .prefill_tokens = 100, .kv_memory = test_tools::memory_for(model, plays, 2)};
    const auto found = test_tools::played_together(model, plays, options, 5);
    test_tools::expect_as_alone(plays, test_tools::all_alone(model, plays), found.turns, 1e-4);
    EXPECT_LE(found.most_held, options.kv_memory);
  }
}

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
