#include "rollout/generate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "model/tiny_model.h"
#include "model/weight_source.h"

namespace hone::rollout {
namespace {

using namespace hone::testing;
using Ids = std::vector<std::int32_t>;

// Of 128 positions.
model::CausalLm tiny() {
  const TempFolder folder;
  write_model(folder.path(), tiny_config("llama"));
  return model::CausalLm(*model::open_weights(folder.path()), {});
}

std::vector<Ids> ids_of(const std::vector<Completion>& completions) {
  std::vector<Ids> out;
  for (const Completion& one : completions) out.push_back(one.ids);
  return out;
}

TEST(Generate, AnswersTheSameHoweverManyPromptTokensJoinAForward) {
  const model::CausalLm model = tiny();
  const std::vector<Ids> prompts = {{3, 4, 5, 6}, {7, 8}, {9}, {10, 11, 12, 13, 14}, {15}};
  GenerateOptions options = {.max_new_tokens = 6, .sampler = {}, .stop_ids = {}, .prefill_tokens = 2048};
  const auto together = ids_of(generate(model, prompts, options));
  ASSERT_EQ(together.size(), 5U);
  EXPECT_EQ(together[3].size(), 6U);
  for (const std::int64_t tokens : {1, 3, 6}) {
    options.prefill_tokens = tokens;
    EXPECT_EQ(ids_of(generate(model, prompts, options)), together) << tokens;
  }
}

TEST(Generate, RefusesMoreThanTheModelsPositions) {
  const model::CausalLm model = tiny();
  const std::vector<Ids> prompts = {{3}, Ids(100, 4)};
  const auto error_with = [&](std::int64_t max_new_tokens) {
    return user_error(
        [&] { generate(model, prompts, {.max_new_tokens = max_new_tokens, .sampler = {}, .stop_ids = {}}); });
  };
  EXPECT_EQ(error_with(28), "");
  const std::string message = error_with(29);
  EXPECT_SAYS(message, "[prompt 2]");
  EXPECT_SAYS(message, "the model's 128 positions");
  EXPECT_SAYS(message, "a prompt of 100 tokens and max_new_tokens 29");
  EXPECT_SAYS(error_with(std::numeric_limits<std::int64_t>::max()), "[prompt 1]");
}

TEST(Generate, RefusesAnEmptyPrompt) {
  const std::string message = user_error([] { generate(tiny(), {{3}, {}}, {}); });
  EXPECT_SAYS(message, "[prompt 2]");
  EXPECT_SAYS(message, "an empty prompt");
}

TEST(Generate, NamesThePromptAndThePositionOfLogitsThatAreNotFinite) {
  const TempFolder folder;
  const base::Json config = tiny_config("llama");
  write_json(folder.path() / "config.json", config);
  auto tensors = random_tensors(config);
  tensors.at("model.embed_tokens.weight")[7].fill_(std::numeric_limits<float>::quiet_NaN());
  write_tensors(folder.path() / "model.safetensors", tensors);
  const model::CausalLm model(*model::open_weights(folder.path()), {});
  const std::string message =
      user_error([&] { generate(model, {{3, 4}, {5, 6, 7}}, {.max_new_tokens = 1}); });
  EXPECT_SAYS(message, "[prompt 2, after token 3]");
  EXPECT_SAYS(message, "NUM-02: the weights or the adapter hold non-finite values");
}

}  // namespace
}  // namespace hone::rollout
