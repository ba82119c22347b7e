// add_weighted_adapter beside PEFT's (tests/parity/record_adapters.py).
#include "adapters/combine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>

#include "adapters/merge.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace combine_test {

using namespace hone::test_tools;

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
    const StoredAdapter made = combine(both(), {"a", "b"}, {0.7, -0.4}, {.how = how}, config());
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

// Where singular vectors are free to turn their sign, the products are compared.
TEST(Combine, GivesPeftsTensorsOfTheOtherKinds) {
  const auto file = base::SafetensorsFile::open(kTiny / "combined_otherwise.safetensors");
  const std::vector<std::pair<std::string, Recipe>> kinds = {
      {"svd", {.how = Combination::kSvd}},
      {"ties", {.how = Combination::kTies, .density = 0.4}},
      {"ties_frequency", {.how = Combination::kTies, .density = 0.4, .election = Election::kFrequency}},
      {"magnitude_prune", {.how = Combination::kMagnitudePrune, .density = 0.4}},
      {"ties_svd", {.how = Combination::kTiesSvd, .density = 0.4}},
      {"magnitude_prune_svd", {.how = Combination::kMagnitudePruneSvd, .density = 0.4}}};
  for (const auto& [kind, recipe] : kinds) {
    const StoredAdapter made = combine(both(), {"a", "b"}, {0.7, -0.4}, recipe, config());
    EXPECT_EQ(made.config.r, 4);
    std::size_t compared = 0;
    for (const StoredLora& module : made.modules) {
      const base::StoredTensor* a = file.find(kind + "." + key_a(module.module));
      const base::StoredTensor* b = file.find(kind + "." + key_b(module.module));
      if (a == nullptr) continue;
      if (!kind.ends_with("svd")) {
        EXPECT_LT(largest_difference(module.a, golden(*a)), 1e-6) << kind << " " << module.module;
        EXPECT_LT(largest_difference(module.b, golden(*b)), 1e-6) << kind << " " << module.module;
      }
      const at::Tensor theirs = golden(*b).mm(golden(*a));
      EXPECT_LT(largest_difference(module.b.mm(module.a), theirs), 1e-5 * theirs.abs().max().item<double>())
          << kind << " " << module.module;
      ++compared;
    }
    EXPECT_EQ(compared, 3U) << kind;
  }
}

// Of the rank that all have together it is exact; the other way to decompose gives the same factors.
TEST(Combine, SvdIsExactAtFullRankAndOneResult) {
  const std::vector<StoredAdapter> adapters = both();
  const StoredAdapter exact =
      combine(adapters, {"a", "b"}, {0.7, -0.4}, {.how = Combination::kCat}, config());
  const StoredAdapter made =
      combine(adapters, {"a", "b"}, {0.7, -0.4}, {.how = Combination::kSvd, .svd_rank = 10}, config());
  EXPECT_EQ(made.config.r, 10);
  for (std::size_t i = 0; i < made.modules.size(); ++i) {
    const StoredLora &ours = made.modules[i], &theirs = exact.modules[i];
    const at::Tensor sum = theirs.b.mm(theirs.a);
    EXPECT_LT(largest_difference(ours.b.mm(ours.a), sum), 1e-5) << ours.module;
    EXPECT_TRUE(ours.b.narrow(1, 8, 2).eq(0).all().item<bool>());
    const Factors whole = decompose(sum, 2);
    EXPECT_LT(largest_difference(ours.a.narrow(0, 0, 2), whole.a), 1e-4) << ours.module;
  }
  EXPECT_SAYS(user_error([&] {
                combine(adapters, {"a", "b"}, {1, 1}, {.how = Combination::kSvd, .svd_rank = 33}, config());
              }),
              "at most the smaller side of every module, here 32");
}

// What the exact one promises: its effect is the weighted sum of effects.
TEST(Combine, CatAddsTheEffects) {
  const std::vector<StoredAdapter> adapters = both();
  const StoredAdapter made = combine(adapters, {"a", "b"}, {0.7, -0.4}, {.how = Combination::kCat}, config());
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
  StoredAdapter made = combine(both(), {"a", "b"}, {1, 1}, {.how = Combination::kCat}, config());
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
  for (StoredLora& module : one[0].modules) module.scale = scale;
  const StoredAdapter made = combine(one, {"a"}, {1}, {.how = Combination::kCat}, config());
  const at::Tensor effect = made.modules[0].b.mm(made.modules[0].a) * made.config.scale();
  EXPECT_LT(largest_difference(effect, one[0].modules[0].b.mm(one[0].modules[0].a) * scale), 1e-6);
}

TEST(Combine, WhatDoesNotAddUpIsRefused) {
  const auto refusal = [](const std::vector<StoredAdapter>& adapters, const std::vector<double>& weights) {
    return user_error(
        [&] { combine(adapters, {"a", "b"}, weights, {.how = Combination::kLinear}, config()); });
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

}  // namespace combine_test
}  // namespace hone::adapters
