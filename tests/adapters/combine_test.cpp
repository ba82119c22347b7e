// add_weighted_adapter beside PEFT's (tests/parity/record_adapters.py).
#include "adapters/combine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

#include "adapters/merge.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace {

using namespace hone::testing;

const fs::path kTiny = fs::path(HONE_FIXTURES) / "parity" / "tiny_llama";

model::ModelConfig config() {
  return model::open_weights(kTiny)->config();
}

std::vector<StoredAdapter> both() {
  return {read_adapter(kTiny / "adapter", config()), read_adapter(kTiny / "adapter_second", config())};
}

at::Tensor golden(const base::StoredTensor& stored) {
  const at::Tensor out = at::empty(stored.shape, at::kFloat);
  std::memcpy(out.mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
  return out;
}

TEST(Combine, GivesPeftsTensors) {
  const auto file = base::SafetensorsFile::open(kTiny / "combined.safetensors");
  for (const auto& [name, how] :
       {std::pair("linear.", Combination::kLinear), std::pair("cat.", Combination::kCat)}) {
    const StoredAdapter made = combine(both(), {"a", "b"}, {0.7, -0.4}, how, config());
    EXPECT_EQ(made.config.r, how == Combination::kCat ? 8 : 4);
    EXPECT_EQ(made.config.scale(), 1.0);
    const auto tensors = tensors_of(made);
    std::size_t compared = 0;
    for (const base::StoredTensor& stored : file.tensors()) {
      if (!stored.name.starts_with(name)) continue;
      const auto it = tensors.find(stored.name.substr(std::strlen(name)));
      ASSERT_NE(it, tensors.end()) << stored.name;
      EXPECT_EQ(it->second.sizes(), at::IntArrayRef(stored.shape)) << stored.name;
      EXPECT_LT(largest_difference(it->second, golden(stored)), 1e-6) << stored.name;
      ++compared;
    }
    EXPECT_EQ(compared, tensors.size());
  }
}

// What the exact one promises: its effect is the weighted sum of effects.
TEST(Combine, CatAddsTheEffects) {
  const std::vector<StoredAdapter> adapters = both();
  const StoredAdapter made = combine(adapters, {"a", "b"}, {0.7, -0.4}, Combination::kCat, config());
  const auto effect = [](const StoredAdapter& one, const std::string& module) {
    for (const StoredLora& lora : one.modules) {
      if (lora.module == module) return lora.b.mm(lora.a) * one.config.scale();
    }
    return at::zeros({1});
  };
  for (const char* name : {"model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"}) {
    const at::Tensor sum = effect(adapters[0], name) * 0.7 - effect(adapters[1], name) * 0.4;
    EXPECT_LT(largest_difference(effect(made, name), sum), 1e-6) << name;
  }
}

TEST(Combine, IsAnAdapterThatIsReadBack) {
  const TempFolder temp;
  StoredAdapter made = combine(both(), {"a", "b"}, {1, 1}, Combination::kCat, config());
  write_adapter(temp.path(), made.config, tensors_of(made));
  const StoredAdapter back = read_adapter(temp.path(), config());
  ASSERT_EQ(back.modules.size(), made.modules.size());
  EXPECT_TRUE(at::equal(back.modules[3].a, made.modules[3].a));
  EXPECT_EQ(back.config.target_modules, made.config.target_modules);
}

TEST(Combine, AnRsloraIsNotMadeStronger) {
  std::vector<StoredAdapter> one = {both()[0]};
  one[0].config.rslora = true;
  const double scale = one[0].config.scale();
  const StoredAdapter made = combine(one, {"a"}, {1}, Combination::kCat, config());
  const at::Tensor effect = made.modules[0].b.mm(made.modules[0].a) * made.config.scale();
  EXPECT_LT(largest_difference(effect, one[0].modules[0].b.mm(one[0].modules[0].a) * scale), 1e-6);
}

TEST(Combine, WhatDoesNotAddUpIsRefused) {
  const auto refusal = [](const std::vector<StoredAdapter>& adapters, const std::vector<double>& weights) {
    return user_error([&] { combine(adapters, {"a", "b"}, weights, Combination::kLinear, config()); });
  };
  EXPECT_SAYS(refusal(both(), {1}), "2 numbers, one an adapter");
  std::vector<StoredAdapter> adapters = both();
  adapters[1].config.r = 6;
  EXPECT_SAYS(refusal(adapters, {1, 1}), "--combination cat");
  adapters = both();
  adapters[0].config.dora = true;
  EXPECT_SAYS(refusal(adapters, {1, 1}), "DoRA");
  adapters = both();
  adapters[1].config.target_is_regex = true;
  EXPECT_SAYS(refusal(adapters, {1, 1}), "a regular expression in each");
}

}  // namespace
}  // namespace hone::adapters
