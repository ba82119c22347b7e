// Frozen adapters below the trained one. Beside PEFT: peft_parity_test.cpp (golden_stacked).
#include "adapters/frozen_adapters.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "adapters/combine.h"
#include "adapters/lora.h"
#include "adapters/merge.h"
#include "base/process/instruction_level.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace below_test {

using namespace hone::test_tools;

const fs::path kTiny = fs::path(HONE_FIXTURES) / "parity" / "tiny_llama";
const std::string kFirst = (kTiny / "adapter").string(), kSecond = (kTiny / "adapter_second").string(),
                  kThird = (kTiny / "adapter_rslora").string(), kDora = (kTiny / "adapter_dora").string();

struct Result {
  at::Tensor logits;
  std::vector<at::Tensor> gradients;
};

Result run(const model::CausalLm& model, Adapter& adapter) {
  const data::Batch batch = make_batch({{5, 9, 200, 17, 33, 90}, {7, 8, 300, 1}});
  const at::Tensor logits = model.autograd_logits(model.hidden(batch, {}));
  adapter.zero_gradient();
  at::log_softmax(logits, -1).select(1, 11).sum().backward();
  Result out{.logits = logits.detach(), .gradients = {}};
  for (const TrainableTensor& one : adapter.tensors()) out.gradients.push_back(one.value.grad().clone());
  return out;
}

double relative(const at::Tensor& ours, const at::Tensor& theirs) {
  return largest_difference(ours, theirs) / theirs.abs().max().item<double>();
}

double worst(const Result& ours, const Result& theirs) {
  double out = relative(ours.logits, theirs.logits);
  for (std::size_t i = 0; i < ours.gradients.size(); ++i)
    out = std::max(out, relative(ours.gradients[i], theirs.gradients[i]));
  return out;
}

// In fp32, of a base that is held in full or in 4 bits: the codes stay, the merged copy holds what they stand
// for.
TEST(FrozenAdapters, IsTheBaseWithTheAdaptersMerged) {
  for (const model::Quantize& scheme :
       {model::Quantize(), model::Quantize(ops::QuantScheme{ops::QuantType::kNf4, true})}) {
    const TempFolder merged;
    merge_to_folder(kTiny, {kFirst, kThird}, merged.path(), scheme);
    model::CausalLm right(*model::open_weights(merged.path()), {});
    Adapter of_right = Adapter::load(right, kSecond);
    model::CausalLm ours(*model::open_weights(kTiny), {}, model::Storage::kPlain, scheme);
    const auto before = ours.frozen_tensors();
    const std::int64_t bytes = ours.parameter_bytes();
    const FrozenAdapters below = attach_frozen(ours, {kFirst, kThird});
    EXPECT_EQ(below.checksums.size(), 2U);
    Adapter of_ours = Adapter::load(ours, kSecond);
    const double found = worst(run(ours, of_ours), run(right, of_right));
    EXPECT_LT(found, 1e-5);
    std::printf("[margin] %s base: worst %.2e of 1e-5\n", scheme ? "4-bit" : "full", found);
    for (std::size_t i = 0, j = 0; i < before.size(); ++i, ++j) {
      const auto after = ours.frozen_tensors();
      while (after[j].first != before[i].first) ++j;  // the adapters below are among them
      EXPECT_TRUE(at::equal(before[i].second, after[j].second)) << before[i].first;
    }
    // Rank 4 on every linear, and another 4 on q, v and down of both layers.
    const std::int64_t all = 2 * (2 * (64 + 64) + 2 * (64 + 32) + 3 * (64 + 96)),
                       some = 2 * ((64 + 64) + (64 + 32) + (64 + 96));
    EXPECT_EQ(ours.parameter_bytes() - bytes, 4 * 4 * (all + some));
  }
}

// One adapter of rank 8 is what the two are together.
TEST(FrozenAdapters, IsWhatCatCombines) {
  const auto source = model::open_weights(kTiny);
  model::CausalLm stacked(*source, {}), one(*source, {});
  attach_frozen(stacked, {kFirst});
  Adapter above = Adapter::load(stacked, kSecond);
  const StoredAdapter made =
      combine({read_adapter(kFirst, source->config()), read_adapter(kSecond, source->config())}, {"a", "b"},
              {1, 1}, {.how = Combination::kCat}, source->config());
  const TempFolder temp;
  write_adapter(temp.path(), made.config, tensors_of(made));
  Adapter concat = Adapter::load(one, temp.path());
  EXPECT_LT(relative(run(stacked, above).logits, run(one, concat).logits), 1e-5);
}

TEST(FrozenAdapters, StaysWhereAdaptersAreOffAndGoesWhenItIsTakenAway) {
  model::CausalLm model(*model::open_weights(kTiny), {});
  const data::Batch batch = make_batch({{5, 9, 200}});
  const auto logits = [&](bool on) {
    return model.autograd_logits(model.hidden(batch, {.adapters_on = on})).detach();
  };
  const at::Tensor base = logits(true);
  attach_frozen(model, {kFirst});
  const at::Tensor with = logits(true);
  EXPECT_GT(largest_difference(with, base), 0.1);
  const Adapter adapter = Adapter::load(model, kSecond);
  EXPECT_TRUE(at::equal(logits(false), with));
  EXPECT_GT(largest_difference(logits(true), with), 0.01);
  attach_frozen(model, {kThird});  // in its place
  EXPECT_GT(largest_difference(logits(false), with), 0.01);
  attach_frozen(model, {});
  EXPECT_TRUE(at::equal(logits(false), base));
}

TEST(FrozenAdapters, IsHeldInTheLinearsTypeAndPackedWhereItCanBe) {
  model::CausalLm model(*model::open_weights(kTiny), {at::kBFloat16, at::kFloat}, model::Storage::kPacked);
  attach_frozen(model, {kFirst});
  const StoredAdapter stored = read_adapter(kFirst, model.config());
  const ops::FrozenLora& side = *model.linears().front()->frozen_lora;
  EXPECT_EQ(side.a.is_packed(), base::instruction_level() >= base::InstructionLevel::kAvx2);
  EXPECT_TRUE(at::equal(side.a.dense(), (stored.modules[0].a * stored.config.scale()).to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(side.b.dense(), stored.modules[0].b.to(at::kBFloat16)));
}

// The adapter's own files say nothing of it, and PEFT reads them; beside them lies what it needs.
TEST(FrozenAdapters, IsNotSavedButNamed) {
  model::CausalLm model(*model::open_weights(kTiny), {});
  Adapter adapter = Adapter::load(model, kSecond);
  const TempFolder alone, above;
  adapter.save(alone.path());
  EXPECT_FALSE(fs::exists(alone.path() / kFrozenAdaptersFile));
  adapter.set_frozen_adapters(attach_frozen(model, {kFirst}));
  adapter.save(above.path());
  for (const char* name : {kConfigFile, kWeightsFile})
    EXPECT_EQ(base::read_text(alone.path() / name), base::read_text(above.path() / name)) << name;
  EXPECT_EQ(read_frozen_adapters(above.path()).folders, std::vector<std::string>{kFirst});
  EXPECT_TRUE(read_frozen_adapters(alone.path()).folders.empty());

  EXPECT_FALSE(frozen_adapters_note(alone.path(), {}));
  EXPECT_FALSE(frozen_adapters_note(above.path(), {kFirst}));
  EXPECT_SAYS(frozen_adapters_note(above.path(), {}).value(),
              "trained above " + kFirst + ", but base_adapters is none");
  EXPECT_SAYS(frozen_adapters_note(above.path(), {kThird}).value(), "a different model");
  base::write_file_atomic(above.path() / kFrozenAdaptersFile, "[]");
  EXPECT_SAYS(user_error([&] { read_frozen_adapters(above.path()); }), "the adapters below this one");
}

TEST(FrozenAdapters, WhatDoesNotAddUpIsRefused) {
  model::CausalLm model(*model::open_weights(kTiny), {});
  EXPECT_SAYS(user_error([&] { attach_frozen(model, {kFirst, kDora}); }),
              "hone merge --adapter_name_or_path");
  EXPECT_SAYS(user_error([&] {
                attach_frozen(model,
                              {(fs::path(HONE_FIXTURES) / "parity" / "trl_reward" / "adapter").string()});
              }),
              "language model");
  model::CausalLm other(*model::open_weights(fs::path(HONE_FIXTURES) / "parity" / "tiny_qwen3"), {});
  EXPECT_SAYS(user_error([&] { attach_frozen(other, {kFirst}); }), "the adapter belongs to another model");
  attach_frozen(model, {kFirst});
  EXPECT_SAYS(user_error([&] { Adapter::load(model, kDora); }), "merge the base_adapters first");
  const auto source = model::open_weights(kTiny);
  EXPECT_SAYS(user_error([&] { merged_weights(*source, {kFirst, kDora}); }), "DoRA");
}

}  // namespace below_test
}  // namespace hone::adapters
