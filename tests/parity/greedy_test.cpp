// Greedy decoding in fp32 against transformers.generate, token for token: prompts of 1 to 55 tokens decoded
// together, more of them than fit at once, some ending early. Golden: record_greedy.py.
#include <gtest/gtest.h>

#include <optional>

#include "adapters/lora.h"
#include "base/json.h"
#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "rollout/generate.h"

namespace hone::parity {
namespace greedy_test {

namespace fs = base::fs;
using base::Json;
using Ids = std::vector<std::int32_t>;

class Greedy : public testing::TestWithParam<std::int64_t> {};

TEST_P(Greedy, EqualsTransformersTokenForToken) {
  const fs::path file = fs::path(HONE_FIXTURES) / "parity/greedy.json";
  const Json golden = base::parse_json(base::read_text(file), file.string());
  int stopped = 0;
  for (const Json& one : golden.at("cases")) {
    const fs::path folder = fs::path(HONE_SOURCE_DIR) / one.at("model").get<std::string>();
    const std::string what = folder.filename().string() + " " + base::dump_json(one.at("adapter"));
    model::CausalLm model(*model::open_weights(folder), {});
    std::optional<adapters::Adapter> adapter;
    if (one.at("adapter").is_string()) {
      adapter = adapters::Adapter::load(model, folder / one.at("adapter").get<std::string>());
    }
    const auto prompts = one.at("prompts").get<std::vector<Ids>>();
    const auto expected = one.at("completions").get<std::vector<Ids>>();
    rollout::GenerateOptions options;
    options.max_new_tokens = one.at("max_new_tokens").get<std::int64_t>();
    options.stop_ids = one.at("eos").get<std::vector<std::int64_t>>();
    options.batch_size = GetParam();
    const auto completions = rollout::generate(model, prompts, options);
    ASSERT_EQ(completions.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(completions[i].ids, expected[i])
          << what << ", prompt " << i << " of " << prompts[i].size() << " tokens";
      EXPECT_EQ(completions[i].finish_reason == rollout::FinishReason::kStopToken,
                expected[i].back() == one.at("eos").at(0).get<std::int32_t>());
      stopped += completions[i].finish_reason == rollout::FinishReason::kStopToken ? 1 : 0;
    }
  }
  EXPECT_GT(stopped, 10);
}

INSTANTIATE_TEST_SUITE_P(Together, Greedy, testing::Values(1, 4, 16),
                         [](const auto& one) { return std::to_string(one.param); });

}  // namespace greedy_test
}  // namespace hone::parity
