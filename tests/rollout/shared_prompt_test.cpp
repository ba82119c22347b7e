// Samples that read their prompt's keys and values in place: in any company the same tokens,
// log-probabilities and entropies, and the memory of a prompt counted once. That they are the trainer's:
// tests/train/sampler_is_trainer_test.cpp.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/process/instruction_level.h"
#include "model/files/weight_source.h"
#include "model/tiny_model.h"
#include "rollout/generate.h"
#include "rollout/kv_memory.h"

namespace hone::rollout {
namespace shared_prompt_test {

using namespace hone::test_tools;
using Ids = std::vector<std::int32_t>;

model::CausalLm tiny(at::ScalarType dtype) {
  const TempFolder folder;
  base::Json config = wide_config("qwen2");
  config["max_position_embeddings"] = 512;
  write_model(folder.path(), config);
  return model::CausalLm(*model::open_weights(folder.path()), {dtype, dtype}, model::Storage::kPacked);
}

Ids some_prompt(std::int32_t length, std::int32_t salt) {
  Ids ids;
  for (std::int32_t i = 0; i < length; ++i) ids.push_back(3 + (i * i + i * salt + salt) % 45);
  return ids;
}

const std::vector<Ids> kPrompts = {some_prompt(70, 1), some_prompt(1, 2), some_prompt(64, 3),
                                   some_prompt(129, 4), some_prompt(17, 5)};

GenerateOptions sharing() {
  GenerateOptions options;
  options.max_new_tokens = 70;  // more than a tile
  options.sampler.temperature = 0.9;
  options.samples = 4;
  options.share_prompt = true;
  options.entropies = true;
  for (std::int64_t id = 0; id < 2500; id += 30) options.stop_ids.push_back(id);  // they differ in length
  options.batch_size = 64;
  return options;
}

// With a tolerance, one completion may take another token: a draw so near the border of two that rounding decides it.
void expect_same(const std::vector<Completion>& a, const std::vector<Completion>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  int flipped = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (tolerance > 0 && a[i].ids != b[i].ids && ++flipped == 1) continue;
    ASSERT_EQ(a[i].ids, b[i].ids) << "completion " << i;
    ASSERT_EQ(a[i].logprobs.size(), a[i].ids.size());
    ASSERT_EQ(a[i].entropies.size(), a[i].ids.size());
    for (std::size_t j = 0; j < a[i].ids.size(); ++j) {
      EXPECT_LE(std::abs(a[i].logprobs[j] - b[i].logprobs[j]), tolerance);
      EXPECT_LE(std::abs(a[i].entropies[j] - b[i].entropies[j]), tolerance);
    }
  }
}

class SharedPrompt : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (base::instruction_level() >= base::InstructionLevel::kAvx2) return;
    // libtorch's GEMM promises no bits.
    if (GetParam() == at::kBFloat16) GTEST_SKIP();
    tolerance_ = 1e-4;
  }
  double tolerance_ = 0;
};
INSTANTIATE_TEST_SUITE_P(DtypePolicy, SharedPrompt, ::testing::Values(at::kBFloat16, at::kFloat));

TEST_P(SharedPrompt, ACompletionDoesNotDependOnItsCompany) {
  const model::CausalLm model = tiny(GetParam());
  const auto wanted = generate(model, kPrompts, sharing());
  std::size_t lengths = 0;
  for (const Completion& one : wanted) lengths += one.ids.size() < 70 ? 1 : 0;
  EXPECT_GT(lengths, 5U);
  for (const std::int64_t batch : {1, 3, 7}) {
    GenerateOptions options = sharing();
    options.batch_size = batch;
    expect_same(generate(model, kPrompts, options), wanted, tolerance_);
  }
  for (const std::int64_t piece : {1, 16, 100}) {
    GenerateOptions options = sharing();
    options.prefill_tokens = piece;
    expect_same(generate(model, kPrompts, options), wanted, tolerance_);
  }
  // Fewer samples are the first of more.
  GenerateOptions options = sharing();
  options.samples = 1;
  const auto first = generate(model, kPrompts, options);
  for (std::size_t i = 0; i < first.size(); ++i) expect_same({first[i]}, {wanted[i * 4]}, tolerance_);
}

TEST_P(SharedPrompt, ACompletionDoesNotDependOnTheMemory) {
  const model::CausalLm model = tiny(GetParam());
  const auto wanted = generate(model, kPrompts, sharing());
  GenerateOptions options = sharing();
  const KvBytes most = kv_bytes(model.config(), GetParam(), 129, options);
  for (const std::int64_t samples : {1, 2, 5}) {
    options.kv_memory = most.prompt + samples * most.sample;
    expect_same(generate(model, kPrompts, options), wanted, tolerance_);
  }
}

// In the fourth step the first sample of the second prompt goes on, its second sample begins with the prompt's hidden
// state, and the third prompt is read up to its middle: two sequences are fed and two tokens drawn, but not of the same.
TEST_P(SharedPrompt, ASampleBeginsBesideAPromptThatIsHalfRead) {
  const model::CausalLm model = tiny(GetParam());
  const std::vector<Ids> prompts = {some_prompt(4, 1), some_prompt(3, 2), some_prompt(9, 3)};
  GenerateOptions options = sharing();
  options.stop_ids.clear();
  options.samples = 2;
  options.max_new_tokens = 3;
  const auto wanted = generate(model, prompts, options);
  options.batch_size = 3;
  options.prefill_tokens = 4;
  expect_same(generate(model, prompts, options), wanted, tolerance_);
}

// A prompt that ends at a tile's border is read from the same tiles either way.
TEST_P(SharedPrompt, IsThePromptItself) {
  const model::CausalLm model = tiny(GetParam());
  GenerateOptions options = sharing();
  const auto shared = generate(model, {kPrompts[2]}, options);
  options.share_prompt = false;
  expect_same(generate(model, {kPrompts[2]}, options), shared, tolerance_);
}

TEST_P(SharedPrompt, FirstTokensMayBeTheLast) {
  const model::CausalLm model = tiny(GetParam());
  GenerateOptions options = sharing();
  options.max_new_tokens = 1;
  const auto wanted = generate(model, kPrompts, options);
  options.batch_size = 3;
  expect_same(generate(model, kPrompts, options), wanted, tolerance_);
}

TEST(KvCache, TruncatesAndClonesAfterItsPrefix) {
  const model::CausalLm model = tiny(at::kFloat);
  const at::NoGradGuard no_grad;
  const auto step = [&](model::KvCache& cache, const std::vector<std::int64_t>& ids) {
    std::vector<model::KvCache*> caches = {&cache};
    return model.step({ids}, caches, {});
  };
  const auto prompt = std::make_shared<model::KvCache>();
  step(*prompt, {3, 4, 5});
  model::KvCache cache = model::KvCache::after(prompt);
  EXPECT_EQ(cache.length, 3);
  const at::Tensor first = step(cache, {6});
  step(cache, {7, 8});
  EXPECT_EQ(cache.length, 6);
  EXPECT_EQ(cache.layers[0].length(), 3);
  EXPECT_EQ(prompt->layers[0].length(), 3);
  model::KvCache other = cache.clone();
  other.truncate(3);
  EXPECT_EQ(cache.layers[0].length(), 3);
  EXPECT_TRUE(at::equal(step(other, {6}), first));
  EXPECT_THROW(other.truncate(2), std::exception);
}

// Few tokens are taken back exactly; after many, only the prefix is left, since the inputs of a convolution are gone.
TEST(KvCache, TruncatesAsFarAsConvolutionsCan) {
  test_tools::TempFolder folder;
  test_tools::write_model(folder.path(), test_tools::tiny_config("lfm2"));
  const model::CausalLm model(*model::open_weights(folder.path()), {at::kBFloat16, at::kFloat});
  const at::NoGradGuard no_grad;
  const auto step = [&](model::KvCache& cache, const std::vector<std::int64_t>& ids) {
    std::vector<model::KvCache*> caches = {&cache};
    return model.step({ids}, caches, {});
  };
  const auto prompt = std::make_shared<model::KvCache>();
  step(*prompt, {3, 4});
  model::KvCache cache = model::KvCache::after(prompt);
  const at::Tensor first = step(cache, {6});
  std::vector<std::int64_t> more;
  for (std::int64_t i = 0; i < 40; ++i) more.push_back(7 + i);
  step(cache, more);
  const at::Tensor next = step(cache, {9});
  model::KvCache other = cache.clone();
  EXPECT_EQ(other.truncate(43), 43);
  EXPECT_TRUE(at::equal(step(other, {9}), next));
  EXPECT_TRUE(other.can_truncate(36));
  EXPECT_FALSE(other.can_truncate(10));
  EXPECT_EQ(other.truncate(10), 2);
  EXPECT_TRUE(at::equal(step(other, {6}), first));
  EXPECT_EQ(cache.length, 44);
}

// No token of a delta rule can be taken back: only the prefix is left.
TEST(KvCache, TruncatesADeltaRuleToItsPrefix) {
  test_tools::TempFolder folder;
  test_tools::write_model(folder.path(), test_tools::tiny_config("qwen3_5_text"));
  const model::CausalLm model(*model::open_weights(folder.path()), {at::kBFloat16, at::kFloat});
  const at::NoGradGuard no_grad;
  const auto step = [&](model::KvCache& cache, const std::vector<std::int64_t>& ids) {
    std::vector<model::KvCache*> caches = {&cache};
    return model.step({ids}, caches, {});
  };
  const auto prompt = std::make_shared<model::KvCache>();
  step(*prompt, {3, 4});
  model::KvCache cache = model::KvCache::after(prompt);
  const at::Tensor first = step(cache, {6, 7});
  model::KvCache other = cache.clone();
  EXPECT_TRUE(other.can_truncate(4));
  EXPECT_EQ(other.truncate(4), 4);
  const at::Tensor next = step(cache, {9});
  EXPECT_TRUE(at::equal(step(other, {9}), next));
  EXPECT_FALSE(other.can_truncate(4));
  EXPECT_EQ(other.truncate(4), 2);
  EXPECT_TRUE(at::equal(step(other, {6, 7}), first));
  EXPECT_EQ(cache.length, 5);
}

}  // namespace shared_prompt_test
}  // namespace hone::rollout
