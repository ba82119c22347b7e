// PEFT's rank_pattern, alpha_pattern, layers_to_transform and layers_pattern. Numbers beside PEFT's:
// tests/parity/tiny_models_test.cpp (adapter_patterns, adapter_layers).
#include "adapters/ranks.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "adapters/combine.h"
#include "adapters/merge.h"
#include "adapters/peft_files.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace ranks_test {

using namespace hone::test_tools;
using base::Json;

struct Setting {
  TempFolder folder;
  std::unique_ptr<model::CausalLm> model;

  Setting() {
    write_model(folder.path() / "base", tiny_config("llama"));
    model =
        std::make_unique<model::CausalLm>(*model::open_weights(folder.path() / "base"), model::DtypePolicy{});
  }
  at::Tensor logits() const {
    const at::NoGradGuard no_grad;
    return model->autograd_logits(model->hidden(make_batch({{3, 4, 5, 6}}), {}));
  }
};

LoraConfig with_patterns() {
  LoraConfig c;
  c.r = 4;
  c.alpha = 8;
  c.init = LoraInit::kFalse;
  c.target_modules = {"q_proj", "v_proj", "down_proj"};
  c.rank_pattern = {{"q_proj", 2}, {"layers\\.1\\..*", 6}};
  c.alpha_pattern = {{"1.mlp.down_proj", 3}};
  return c;
}

TEST(Ranks, AreOfTheFirstPatternThatMatches) {
  const LoraConfig c = with_patterns();
  const std::vector<std::string> modules = {
      "model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.v_proj",
      "model.layers.1.mlp.down_proj", "model.layers.0.mlp.down_proj"};
  std::vector<std::int64_t> ranks;
  std::vector<double> scales;
  for (const ModuleRank& one : ranks_of(c, modules, true)) {
    ranks.push_back(one.r);
    scales.push_back(one.scale);
  }
  EXPECT_EQ(ranks, (std::vector<std::int64_t>{2, 2, 6, 6, 4}));
  EXPECT_EQ(scales, (std::vector<double>{4, 4, 8.0 / 6, 0.5, 2}));
  LoraConfig rooted = c;
  rooted.rslora = true;
  EXPECT_EQ(ranks_of(rooted, modules, true)[3].scale, 3 / std::sqrt(6.0));
}

TEST(Ranks, APatternThatMatchesNothingIsAMistakeOfTheUser) {
  const std::vector<std::string> modules = {"model.layers.0.self_attn.q_proj"};
  LoraConfig c;
  c.rank_pattern = {{"q_prj", 2}};
  const std::string message = user_error([&] { ranks_of(c, modules, true); });
  EXPECT_SAYS(message, "option rank_pattern");
  EXPECT_SAYS(message, "Did you mean 'q_proj'");
  EXPECT_EQ(ranks_of(c, modules, false)[0].r, c.r);  // PEFT's files: ignored
  c.rank_pattern = {{"proj", 2}};                    // not after a dot
  EXPECT_NE(user_error([&] { ranks_of(c, modules, true); }), "");
  c.rank_pattern = {{"(", 2}};
  EXPECT_SAYS(user_error([&] { ranks_of(c, modules, false); }), "adapter_config.json: rank_pattern");
}

// PEFT sorts them when it writes, and then reads another rank.
TEST(Ranks, KeepTheirMeaningInAFileThatSortsThem) {
  LoraConfig c = with_patterns();
  const std::vector<std::string> modules = {"model.layers.0.self_attn.q_proj",
                                            "model.layers.1.self_attn.q_proj"};
  const auto ranks = [&](const LoraConfig& of) {
    return std::pair(ranks_of(of, modules, false)[0].r, ranks_of(of, modules, false)[1].r);
  };
  const LoraConfig recorded = with_recorded_patterns(c, modules);  // sorted, "layers..." would come first
  EXPECT_EQ(ranks(recorded), ranks(c));
  EXPECT_EQ(recorded.rank_pattern.front().first, "model\\.layers\\.0\\.self_attn\\.q_proj");
  std::swap(c.rank_pattern[0], c.rank_pattern[1]);
  EXPECT_EQ(with_recorded_patterns(c, modules).rank_pattern, c.rank_pattern);
}

TEST(Ranks, ComeBackFromFilesAndAreMerged) {
  for (const bool pissa : {false, true}) {
    Setting s, fresh;
    LoraConfig c = with_patterns();
    if (pissa) c.init = LoraInit::kPissa;
    const Adapter adapter = Adapter::attach(*s.model, c, 1);
    {
      const at::NoGradGuard no_grad;
      adapter.flat().mul_(1.5);
    }
    const fs::path folder = s.folder.path() / "adapter";
    adapter.save(folder);
    const StoredAdapter stored = read_adapter(folder, s.model->config());
    const std::int64_t times = pissa ? 2 : 1;
    EXPECT_EQ(stored.modules[0].a.size(0), 2 * times);  // layer 0 q, v, down, layer 1 q, v, down
    EXPECT_EQ(stored.modules[1].a.size(0), 4 * times);
    EXPECT_EQ(stored.modules[4].a.size(0), 6 * times);
    EXPECT_EQ(stored.modules[5].scale, 0.5);
    const Adapter back = Adapter::load(*fresh.model, folder);
    EXPECT_LT(largest_difference(fresh.logits(), s.logits()), 1e-4);
    merge_to_folder(s.folder.path() / "base", {folder}, s.folder.path() / "merged");
    const model::CausalLm merged(*model::open_weights(s.folder.path() / "merged"), {});
    const at::NoGradGuard no_grad;
    EXPECT_LT(
        largest_difference(merged.autograd_logits(merged.hidden(make_batch({{3, 4, 5, 6}}), {})), s.logits()),
        1e-4);
    if (!pissa) continue;
    Setting again;
    EXPECT_TRUE(Adapter::resume_pissa(*again.model, folder, c).flat().equal(adapter.flat()));
  }
}

TEST(Ranks, AreCombined) {
  Setting s;
  const Adapter adapter = Adapter::attach(*s.model, with_patterns(), 1);
  const at::Tensor expected = s.logits();
  adapter.save(s.folder.path() / "adapter");
  const StoredAdapter one = read_adapter(s.folder.path() / "adapter", s.model->config());
  EXPECT_SAYS(user_error([&] {
                combine({one, one}, {"a", "b"}, {1, 1}, {.how = Combination::kLinear}, s.model->config());
              }),
              "rank_pattern");
  for (const Combination how : {Combination::kCat, Combination::kSvd}) {
    const StoredAdapter made = combine({one, one}, {"a", "b"}, {0.5, 0.5}, {.how = how}, s.model->config());
    EXPECT_EQ(made.config.r, how == Combination::kCat ? 12 : 6);
    write_adapter(s.folder.path() / "adapter", made.config, tensors_of(made));
    Setting fresh;
    const Adapter both = Adapter::load(*fresh.model, s.folder.path() / "adapter");
    EXPECT_LT(largest_difference(fresh.logits(), expected), 1e-4);
  }
}

TEST(Ranks, ReadPeftsFormsOfTheOptions) {
  const auto read = [](Json json) {
    json["peft_type"] = "LORA";
    return config_from_json(json, "f");
  };
  const LoraConfig c =
      read({{"rank_pattern", {{"q_proj", 2}}}, {"alpha_pattern", {{"v", 1.5}}}, {"layers_to_transform", 1}});
  EXPECT_EQ(c.rank_pattern.front(), (std::pair<std::string, std::int64_t>("q_proj", 2)));
  EXPECT_EQ(c.alpha_pattern.front(), (std::pair<std::string, double>("v", 1.5)));
  EXPECT_EQ(c.layers_to_transform, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(read({{"layers_pattern", "h"}}).layers_pattern, (std::vector<std::string>{"h"}));
  for (const Json& bad : {Json({{"rank_pattern", {{"q", 0}}}}), Json({{"rank_pattern", {{"q", "2"}}}}),
                          Json({{"alpha_pattern", {{"q", 1e12}}}}), Json({{"layers_to_transform", {1.5}}}),
                          Json({{"layers_pattern", {1}}}), Json({{"bias", "some"}})}) {
    EXPECT_SAYS(user_error([&] { read(bad); }), "f: " + bad.begin().key());
  }
}

}  // namespace ranks_test
}  // namespace hone::adapters
