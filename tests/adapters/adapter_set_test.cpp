// Several adapters of one model: after a switch it is the model of a process that read that adapter alone.
#include "adapters/adapter_set.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <limits>

#include "adapters/frozen_adapters.h"
#include "adapters/lora.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace adapter_set_test {

using namespace hone::test_tools;

const fs::path kTiny = fs::path(HONE_FIXTURES) / "parity" / "tiny_llama";
// Of rank 4 on all linears; on q and gate; with DoRA on q, v and down; with rsLoRA by a regular expression.
const std::vector<std::string> kFolders = {"adapter", "adapter_second", "adapter_dora", "adapter_rslora",
                                           "adapter_tokens"};
constexpr model::DtypePolicy kNumbers[] = {{at::kFloat, at::kFloat}, {at::kBFloat16, at::kBFloat16}};

at::Tensor logits(const model::CausalLm& model) {
  const at::NoGradGuard no_grad;
  model::KvCache cache;
  std::vector<model::KvCache*> caches = {&cache};
  return at::cat({model.autograd_logits(model.hidden(make_batch({{5, 9, 200, 17}}), {})),  // both layer forms
                  model.logits(model.step({{5, 9, 200, 17}}, caches, {}))});
}

TEST(AdapterSet, SwitchesToWhatAFreshModelWithThatAdapterIs) {
  const auto source = model::open_weights(kTiny);
  for (const model::DtypePolicy& dtypes : kNumbers) {
    std::vector<at::Tensor> fresh;
    for (const std::string& folder : kFolders) {
      model::CausalLm model(*source, dtypes, model::Storage::kPacked);
      const Adapter adapter = Adapter::load(model, kTiny / folder);
      fresh.push_back(logits(model));
    }
    model::CausalLm model(*source, dtypes, model::Storage::kPacked);
    const at::Tensor alone = logits(model);
    AdapterSet set(model);
    for (const std::string& folder : kFolders) set.load(folder, kTiny / folder);
    EXPECT_EQ(set.names(), kFolders);
    EXPECT_EQ(set.active(), "");
    EXPECT_TRUE(at::equal(logits(model), alone)) << "reading switches nothing";
    for (const std::size_t i : {0, 2, 4, 1, 3, 2, 0}) {
      set.activate(kFolders[i]);
      EXPECT_EQ(set.active(), kFolders[i]);
      EXPECT_TRUE(at::equal(logits(model), fresh[i])) << kFolders[i];
      EXPECT_FALSE(at::equal(logits(model), alone));
    }
    set.load("again", kTiny / "adapter");
    EXPECT_TRUE(at::equal(logits(model), fresh[0])) << "the one that is on stays on";
    set.deactivate();
    EXPECT_TRUE(at::equal(logits(model), alone));
  }
}

TEST(AdapterSet, LeavesWhatLiesBelow) {
  model::CausalLm model(*model::open_weights(kTiny), {});
  attach_frozen(model, {(kTiny / "adapter_rslora").string()});
  const at::Tensor base = logits(model);
  AdapterSet set(model);
  set.load("a", kTiny / "adapter");
  set.load("b", kTiny / "adapter_second");
  set.activate("b");
  const at::Tensor with = logits(model);
  set.activate("a");
  set.deactivate();
  EXPECT_TRUE(at::equal(logits(model), base));
  set.activate("b");
  EXPECT_TRUE(at::equal(logits(model), with));
}

TEST(AdapterSet, KeepsTheTensorsAlone) {
  model::CausalLm model(*model::open_weights(kTiny), {});
  AdapterSet set(model);
  set.load("a", kTiny / "adapter");
  // r 4 on two layers of q, o [64, 64], k, v [32, 64], gate, up and down between 64 and 96
  EXPECT_EQ(set.bytes(), 4 * 4 * 2 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 96)));
  set.activate("a");
  for (const ops::Linear* linear : model.linears()) {
    EXPECT_FALSE(linear->lora->a.requires_grad());
    EXPECT_FALSE(linear->lora->b.grad().defined());
  }
}

TEST(AdapterSet, NamesAreKnownAndTheirOwn) {
  model::CausalLm model(*model::open_weights(kTiny), {});
  AdapterSet set(model);
  set.load("first", kTiny / "adapter");
  set.activate("first");
  const at::Tensor with = logits(model);
  EXPECT_SAYS(user_error([&] { set.load("first", kTiny / "adapter_second"); }), "two named 'first'");
  EXPECT_SAYS(user_error([&] { set.activate("frist"); }), "Did you mean 'first'?");
  EXPECT_SAYS(
      user_error([&] { set.load("r", fs::path(HONE_FIXTURES) / "parity" / "trl_reward" / "adapter"); }),
      "language model");
  EXPECT_EQ(set.names(), std::vector<std::string>{"first"});
  EXPECT_EQ(set.active(), "first");
  EXPECT_FALSE(model.score_head().defined());
  EXPECT_TRUE(at::equal(logits(model), with)) << "what is refused changes nothing";
}

TEST(AdapterSet, SidesAreThoseOfLinearsAlone) {
  model::CausalLm model(*model::open_weights(kTiny), {});
  AdapterSet set(model);
  for (const std::string& folder : kFolders) set.load(folder, kTiny / folder);
  const auto sides = set.sides("adapter");
  ASSERT_NE(sides, nullptr);
  EXPECT_EQ(sides->size(), model.linears().size());
  EXPECT_NE(set.sides("adapter_dora"), nullptr);
  EXPECT_EQ(set.sides("adapter_tokens"), nullptr) << "its rows of the embedding are nobody else's";
  EXPECT_THROW(set.sides("adaptor"), base::UserError);
  set.activate("adapter_second");
  EXPECT_EQ(set.sides("adapter"), sides) << "whatever is on";
}

// Rows of others are multiplied by its values after a zero.
TEST(AdapterSet, SidesAreFinite) {
  const TempFolder folder;
  const auto source = model::open_weights(kTiny);
  model::CausalLm model(*source, {});
  {
    const Adapter adapter = Adapter::load(model, kTiny / "adapter");
    const at::NoGradGuard no_grad;
    adapter.tensors()[1].value[0][0] = std::numeric_limits<float>::infinity();
    adapter.save(folder.path() / "bad");
  }
  AdapterSet set(model);
  set.load("bad", folder.path() / "bad");
  EXPECT_EQ(set.sides("bad"), nullptr);
}

}  // namespace adapter_set_test
}  // namespace hone::adapters
