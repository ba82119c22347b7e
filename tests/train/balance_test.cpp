// The load-balancing loss of micro-batches without a target, which TRL adds like that of others.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "adapters/lora.h"
#include "model/tiny_model.h"
#include "train/passes/scored_pass.h"

namespace hone::train {
namespace balance_test {

using namespace hone::test_tools;

class Balance : public ::testing::TestWithParam<bool> {
 protected:
  struct Found {
    ScoredFacts facts;
    at::Tensor gradient;
  };
  Found run(const char* type, bool scored, double balance) {
    const TempFolder folder;
    base::Json config = tiny_config(type);
    write_model(folder.path(), config);
    model::CausalLm model(*model::open_weights(folder.path()), {});
    adapters::LoraConfig lora;
    lora.r = 4;
    lora.alpha = 8;
    lora.target_modules = {"q_proj", "v_proj"};
    lora.init = adapters::LoraInit::kFalse;
    adapters::Adapter adapter = adapters::Adapter::attach(model, lora, 7);
    data::Batch batch = make_batch({{3, 4, 5, 6, 7, 8, 9, 10}, {11, 12, 13, 14, 15}});
    if (!scored) std::fill(batch.labels.begin(), batch.labels.end(), data::kIgnore);
    adapter.zero_gradient();
    const PassForm form{.is_fused = GetParam()};
    Found out;
    out.facts = score_and_backward(model, batch, {.training = true, .seed = 3, .step = 5}, 11.0, form,
                                   {.balance = balance});
    out.gradient = adapter.flat_gradient().clone();
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Forms, Balance, ::testing::Bool());

TEST_P(Balance, IsLearnedWithoutATarget) {
  for (const char* type : families_with_experts()) {
    const Found with = run(type, true, 0.5), without = run(type, true, 0), alone = run(type, false, 0.5);
    EXPECT_EQ(alone.facts.scored, 0);
    EXPECT_EQ(alone.facts.nll_sum, 0);
    EXPECT_EQ(alone.facts.balance, with.facts.balance) << type;
    EXPECT_GT(alone.facts.balance, 0.9) << type;
    EXPECT_GT(alone.gradient.abs().max().item<double>(), 1e-5) << type;
    EXPECT_LT(largest_difference(alone.gradient, with.gradient - without.gradient), 1e-6) << type;
    EXPECT_EQ(run(type, false, 0).gradient.abs().max().item<double>(), 0) << type;
  }
}

TEST_P(Balance, IsNothingWithoutExperts) {
  const Found found = run("qwen3", false, 0.5);
  EXPECT_EQ(found.facts.balance, 0);
  EXPECT_EQ(found.gradient.abs().max().item<double>(), 0);
}

}  // namespace balance_test
}  // namespace hone::train
