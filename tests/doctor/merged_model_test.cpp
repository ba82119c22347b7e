// Merged models beside base and adapter on the tiny fixture: right ones, rounded ones, others.
#include "doctor/tools/merged_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "adapters/lora.h"
#include "adapters/merge.h"
#include "model/files/weight_source.h"
#include "model/fused_pass.h"
#include "probe_runs.h"

namespace hone::doctor {
namespace merged_model_test {

using base::Level;
constexpr model::DtypePolicy kFloat32 = {.linear = at::kFloat, .residual = at::kFloat};

class MergedModelTest : public ProbeTest {
 protected:
  const fs::path base_ = fixtures() / "tiny_llama", adapter_ = base_ / "adapter";
  const std::vector<std::vector<std::int32_t>> prompts_ = {{5, 9, 17, 3}, {40, 41}, {7, 7, 7, 7, 7, 7}};

  std::vector<GreedyPath> paths() const {
    model::CausalLm model(*model::open_weights(base_), kFloat32);
    const adapters::Adapter adapter = adapters::Adapter::load(model, adapter_);
    return greedy_paths(model, prompts_, {}, 12);
  }
  base::Verdict verdict(const fs::path& folder, const std::string& narrow = "") const {
    const model::CausalLm other(*model::open_weights(folder), kFloat32);
    return merged_verdict(compare_models(other, paths()), "the merged model", narrow);
  }
};

TEST_F(MergedModelTest, AMergeSaysTheSame) {
  adapters::merge_to_folder(base_, {adapter_}, root_ / "merged");
  const base::Verdict found = verdict(root_ / "merged");
  EXPECT_EQ(found.level, Level::kOk) << found.what << found.evidence;
  EXPECT_NE(found.what.find("3 of 3"), std::string::npos) << found.what;
  EXPECT_NE(found.evidence.find("36 of 36"), std::string::npos) << found.evidence;
}

TEST_F(MergedModelTest, TheBaseModelIsNotTheMergedModel) {
  const base::Verdict found = verdict(base_);
  EXPECT_EQ(found.level, Level::kFail) << found.what << found.evidence;
  EXPECT_NE(found.cause.find("another base"), std::string::npos);
}

TEST_F(MergedModelTest, TheTypeIsBlamedForWhatItLoses) {
  MergedComparison found = {.prompts = 10,
                            .same = 9,
                            .tokens = 300,
                            .same_tokens = 299,
                            .kl = 1e-4,
                            .kl_without = 0.5,
                            .widest_gap = 0.01};
  EXPECT_EQ(merged_verdict(found, "the file", "").level, Level::kNote);
  found.widest_gap = 0.2;
  EXPECT_EQ(merged_verdict(found, "the file", "").level, Level::kWarn);
  found.kl = 0.02;
  const base::Verdict narrow = merged_verdict(found, "the file", "Q4_K_M");
  EXPECT_EQ(narrow.level, Level::kWarn);
  EXPECT_NE(narrow.cause.find("Q4_K_M"), std::string::npos);
  EXPECT_NE(narrow.evidence.find("20 %"), std::string::npos) << narrow.evidence;
  // An adapter of small effect, which four bits drown: no other base.
  found.kl = 0.11;
  found.kl_without = 0.05;
  EXPECT_EQ(merged_verdict(found, "the file", "Q4_K_M").level, Level::kWarn);
  EXPECT_EQ(merged_verdict(found, "the file", "").level, Level::kFail);
  found.kl = std::nan("");
  EXPECT_EQ(merged_verdict(found, "the file", "Q4_K_M").level, Level::kFail);
}

// The tiny vocabulary has more tokens than are kept, so the rest is one bucket: the KL is at most the whole
// one, and nearly that.
TEST_F(MergedModelTest, TheKlIsNearlyTheWholeOne) {
  const at::NoGradGuard no_grad;
  model::CausalLm model(*model::open_weights(base_), kFloat32);
  const adapters::Adapter adapter = adapters::Adapter::load(model, adapter_);
  const auto found = greedy_paths(model, prompts_, {}, 12);
  const auto logprobs = [&](const GreedyPath& path, bool on) {
    const ops::PassContext pass = {.adapters_on = on};
    model::FusedPass forward(model, path.tokens, pass);
    const auto end = static_cast<std::int64_t>(path.tokens.ids.size());
    return at::log_softmax(
        model.logits(forward.forward(at::arange(path.prompt - 1, end - 1, at::kLong), {}), pass), -1);
  };
  for (const GreedyPath& path : found) {
    const at::Tensor right = logprobs(path, true), other = logprobs(path, false);
    const double whole = (right.exp() * (right - other)).sum().item<double>();
    EXPECT_GT(whole, 0);
    EXPECT_LE(path.kl_without, whole * 1.000001);
    EXPECT_GE(path.kl_without, whole * 0.3);
    EXPECT_EQ(path.ids.size(0), 12);
    EXPECT_TRUE(path.ids.select(1, 0).equal(right.argmax(1)));
  }
}

}  // namespace merged_model_test
}  // namespace hone::doctor
