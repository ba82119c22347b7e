#include "train/facts/device_facts.h"

#include <gtest/gtest.h>

namespace hone::train {
namespace device_facts_test {

using Names = std::vector<std::string>;

model::ModelConfig plain() {
  model::ModelConfig out;
  out.num_hidden_layers = 2;
  out.head_dim = 64;
  return out;
}

Names forms(const model::ModelConfig& model, at::ScalarType linear = at::kBFloat16,
            config::Method method = config::Method::kSft) {
  config::Plan plan;
  plan.method = method;
  return reference_forms(model, linear, plan);
}

TEST(DeviceFacts, AnOrdinaryModelInBf16HasNone) {
  EXPECT_EQ(forms(plain()), Names());
  EXPECT_EQ(forms(plain(), at::kBFloat16, config::Method::kGrpo), Names());
}

TEST(DeviceFacts, Float32IsOneOfThem) {
  EXPECT_EQ(forms(plain(), at::kFloat), Names{"products, norms and attention in float32"});
}

TEST(DeviceFacts, SoAreSoftCapsAndOddHeads) {
  model::ModelConfig capped = plain();
  capped.attention_soft_cap = 50;
  EXPECT_EQ(forms(capped), Names{"attention with soft caps"});
  for (const std::int64_t head : {100L, 260L, 512L}) {
    model::ModelConfig odd = plain();
    odd.head_dim = head;
    EXPECT_EQ(forms(odd), Names{"attention of heads that are no multiple of 8, or above 256"}) << head;
  }
  model::ModelConfig largest = plain();
  largest.head_dim = 256;
  EXPECT_EQ(forms(largest), Names());
}

TEST(DeviceFacts, AWindowIsOneOnlyBehindASharedPrompt) {
  model::ModelConfig windows = plain();
  windows.attention = {model::LayerAttention{.window = 512}, model::LayerAttention{}};
  EXPECT_EQ(forms(windows), Names());
  const Names shared{"sliding windows behind a shared prompt (share_prompt)"};
  for (const config::Method method : {config::Method::kGrpo, config::Method::kDpo, config::Method::kReward})
    EXPECT_EQ(forms(windows, at::kBFloat16, method), shared);
  config::Plan apart;
  apart.method = config::Method::kGrpo;
  apart.share_prompt = false;
  EXPECT_EQ(reference_forms(windows, at::kBFloat16, apart), Names());
}

TEST(DeviceFacts, OtherLayersAreNamed) {
  model::ModelConfig mixed = plain();
  mixed.kinds = {model::LayerKind::kDeltaRule, model::LayerKind::kShortConv};
  mixed.experts.count = 4;
  mixed.head_dim = 512;  // of no layer with attention
  EXPECT_EQ(forms(mixed), (Names{"the delta rule", "short convolutions", "experts, which the host counts"}));
}

}  // namespace device_facts_test
}  // namespace hone::train
