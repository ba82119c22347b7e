// Generation with keys in pages and tokens drawn on the device, by the source of hone's own kernels, gives what the synchronous form
// gives: keys in rows, logits on the host.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/files/weight_source.h"
#include "ops/backend/cuda.h"
#include "ops/sampling/key_pages.h"
#include "rollout/generate.h"
#include "rollout/kv_memory.h"
#include "rollout/random_requests.h"
#include "standin/emulated_kernels.h"
#include "standin/families.h"
#include "standin/standin.h"

namespace hone::standin {
namespace page_generation_test {

using rollout::Completion;
using Ids = std::vector<std::int32_t>;

model::CausalLm tiny(const std::string& name, at::ScalarType dtype = at::kFloat) {
  const base::fs::path folder = base::fs::path(HONE_FIXTURES) / "parity" / name;
  const model::DtypePolicy dtypes{.linear = dtype, .residual = at::kFloat};
  return model::CausalLm(*model::open_weights(folder), dtypes, model::Storage::kPacked, {}, device());
}

// Two prompts of two samples, the first longer than a page and read in pieces.
rollout::GenerateOptions sampling(bool share) {
  rollout::GenerateOptions options;
  options.max_new_tokens = 4;
  options.samples = 2;
  options.seed = 7;
  options.batch_size = 3;
  options.prefill_tokens = 40;
  options.entropies = true;
  options.sampler = {.temperature = 0.9, .top_k = 40, .top_p = 0.9, .repetition_penalty = 1.1};
  options.stop_ids = {5, 17, 33};
  options.min_new_tokens = 2;
  options.share_prompt = share;
  return options;
}

struct Both {
  std::vector<Completion> synchronous, paged;
};

Both both(const model::CausalLm& model, const std::vector<Ids>& prompts,
          const rollout::GenerateOptions& options) {
  Both out;
  {
    const ops::backend::WithoutOwnKernels none;
    out.synchronous = generate(model, prompts, options);
  }
  out.paged = generate(model, prompts, options);
  return out;
}

void expect_equal(const Both& found) {
  ASSERT_EQ(found.paged.size(), found.synchronous.size());
  for (std::size_t i = 0; i < found.paged.size(); ++i) {
    const Completion &expected = found.synchronous[i], &paged = found.paged[i];
    ASSERT_EQ(paged.ids, expected.ids) << "completion " << i;
    EXPECT_EQ(paged.finish_reason, expected.finish_reason);
    for (std::size_t t = 0; t < expected.ids.size(); ++t) {
      EXPECT_NEAR(paged.logprobs[t], expected.logprobs[t], 1e-5);
      EXPECT_NEAR(paged.sampled_logprobs[t], expected.sampled_logprobs[t], 1e-5);
      EXPECT_NEAR(paged.entropies[t], expected.entropies[t], 1e-5);
    }
  }
}

// Whether some layer sees all tokens, and has no soft cap.
bool has_pages(const model::ModelConfig& config) {
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i)
    if (config.mixer(i).attends() && config.attention_of(i).has_keys() &&
        config.attention_of(i).window == 0 && config.attention_soft_cap == 0)
      return true;
  return false;
}

class InPages : public testing::TestWithParam<std::string> {};

TEST_P(InPages, CompletionsAreTheSynchronousForms) {
  const UseEmulatedKernels kernels;
  const model::CausalLm model = tiny(GetParam());
  for (const bool share : {false, true}) {
    SCOPED_TRACE(share ? "prompts are shared" : "each sample has its prompt");
    expect_equal(both(model, prompts_of(GetParam()), sampling(share)));
  }
  EXPECT_GT(kernels.calls().at("sample_tokens"), 0);
  EXPECT_EQ(kernels.calls().at("attend_pages") > 0, has_pages(model.config()));
}

INSTANTIATE_TEST_SUITE_P(Generation, InPages, testing::Values("tiny_llama", "tiny_qwen2_windows"),
                         [](const auto& one) { return one.param; });
INSTANTIATE_TEST_SUITE_P(GenerationSlow, InPages, testing::ValuesIn(generating_families()),
                         [](const auto& one) { return one.param; });

// Pieces of prompts are FlashAttention-2's in bf16, and tokens the kernel's, in one step.
TEST(PageGeneration, IsTheSynchronousFormToRoundingInBf16) {
  const UseEmulatedKernels kernels;
  const model::CausalLm model = tiny("tiny_llama", at::kBFloat16);
  for (const bool share : {false, true}) {
    const Both found = both(model, prompts_of("tiny_llama"), sampling(share));
    std::size_t compared = 0;
    for (std::size_t i = 0; i < found.paged.size(); ++i) {
      const Completion &expected = found.synchronous[i], &paged = found.paged[i];
      for (std::size_t t = 0; t < std::min(expected.ids.size(), paged.ids.size()); ++t) {
        if (paged.ids[t] != expected.ids[t]) break;  // rounding may turn a token
        EXPECT_NEAR(paged.logprobs[t], expected.logprobs[t], 3e-2) << i << ", " << t;
        compared += 1;
      }
    }
    EXPECT_GT(compared, 10U);
  }
  EXPECT_GT(kernels.calls().at("attend_pages"), 0);
}

TEST(PageGeneration, ASharedPromptsPagesAreOneForAllSamples) {
  const UseEmulatedKernels kernels;
  const model::CausalLm model = tiny("tiny_llama");
  rollout::GenerateOptions options = sampling(true);
  options.samples = options.batch_size = 3;
  options.stop_ids = {};
  std::int64_t pages = 0;
  generate(model, {some_prompt(70, 1)}, options, [&](std::size_t, const Completion&) {
    const model::ReservedKeys keys = model.reserve_keys(0);
    pages = std::max(pages, keys.pages->booked() / ops::kPageTokens - keys.pages->unused());
  });
  EXPECT_EQ(pages, 2 + 2) << "the prompt's two, and one of each sample but the one that is told of";
}

// With what only the host can do among them.
TEST(PageGenerationSlow, RequestsAreAsAlone) {
  const UseEmulatedKernels kernels;
  const model::CausalLm model = tiny("tiny_llama");
  const std::vector<test_tools::Play> plays = test_tools::drawn_plays(12, 4, 384, /*longest=*/12);
  std::vector<std::vector<test_tools::Turns>> alone;
  {
    const ops::backend::WithoutOwnKernels none;
    alone = test_tools::all_alone(model, plays);
  }
  const rollout::EngineOptions options = {
      .batch_size = 5, .prefill_tokens = 100, .kv_memory = test_tools::memory_for(model, plays, 2)};
  const auto found = test_tools::played_together(model, plays, options, 5);
  test_tools::expect_as_alone(plays, alone, found.turns, 1e-4);
  EXPECT_LE(found.most_held, options.kv_memory);
  EXPECT_GT(kernels.calls().at("sample_tokens"), 0);
}

}  // namespace page_generation_test
}  // namespace hone::standin
