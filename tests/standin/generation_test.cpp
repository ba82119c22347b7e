// Generation on the stand-in: the CPU's tokens, and one copy of logits to the host a forward.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

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

TEST(Generation, GivesTheCpusTokens) {
  for (const char* name : {"tiny_llama", "tiny_qwen2", "tiny_qwen3", "tiny_gemma2"}) {
    SCOPED_TRACE(name);
    const model::CausalLm cpu = tiny(name, at::kCPU), here = tiny(name, device());
    EXPECT_EQ(here.device(), device());
    for (const bool share : {false, true}) {
      expect_close(generate(cpu, kPrompts, sampling(share)), generate(here, kPrompts, sampling(share)));
    }
    rollout::GenerateOptions greedy = sampling(true);
    greedy.sampler = {};
    greedy.samples = 1;
    expect_close(generate(cpu, kPrompts, greedy), generate(here, kPrompts, greedy));
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
  EXPECT_EQ(three_tokens.to_device, 3 * 2) << "ids and positions";
}

TEST(Generation, TheModelsMemoryIsTheDevices) {
  const std::int64_t before = ops::device_memory(device()).in_use;
  const model::CausalLm model = tiny("tiny_llama", device());
  EXPECT_GE(ops::device_memory(device()).in_use - before, model.parameter_bytes());
}

}  // namespace generation_test
}  // namespace hone::standin
