// use_peft false: what is trained, what it excludes.
#include <algorithm>

#include "config/helpers.h"
#include "config/write_plan.h"

namespace hone::config {
namespace full_plan_test {

using Words = std::vector<std::string>;

bool has_note(const Plan& plan, const std::string& text) {
  return std::any_of(plan.notes.begin(), plan.notes.end(),
                     [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

class FullPlan : public ConfigTest {
 protected:
  Plan full(Words more = {}) const {
    more.insert(more.begin(), {"--use_peft", "false"});
    return run(more);
  }
  std::string full_error(const Words& more) const {
    return error_of([&] { full(more); });
  }
};

TEST_F(FullPlan, TrainsEveryWeightByDefault) {
  const Plan plan = full();
  EXPECT_FALSE(plan.use_peft);
  EXPECT_TRUE(plan.unfrozen_parameters.empty());
  EXPECT_FALSE(plan.freeze_embeddings);
  EXPECT_EQ(plan.max_shard_size, 0);
  EXPECT_EQ(full({"--max_shard_size", "900MiB"}).max_shard_size, 900LL << 20);
  EXPECT_TRUE(full({"--freeze_embeddings"}).freeze_embeddings);
}

TEST_F(FullPlan, ASpectrumFileBecomesItsPatterns) {
  const std::string file = write("spectrum.yaml",
                                 "unfrozen_parameters:\n- ^lm_head.weight$\n# mlp.down_proj layers\n"
                                 "- model.layers.1.mlp.down_proj\r\n");
  const Plan plan = full({"--spectrum_config_path", file});
  EXPECT_EQ(plan.unfrozen_parameters, (Words{"^lm_head.weight$", "model.layers.1.mlp.down_proj"}));
  const std::string yaml = write_plan(plan);
  EXPECT_EQ(yaml.find(file), std::string::npos) << "the run is the same when the file has changed";
  EXPECT_NE(yaml.find("model.layers.1.mlp.down_proj"), std::string::npos);
  EXPECT_EQ(parse_run_text(Method::kSft, yaml, "plan.yaml").unfrozen_parameters, plan.unfrozen_parameters);
  EXPECT_NE(full_error({"--spectrum_config_path", file, "--unfrozen_parameters", "model.norm"}).find("both"),
            std::string::npos);
  const std::string other = write("other.yaml", "layers: 3\n");
  EXPECT_NE(full_error({"--spectrum_config_path", other}).find("lines '- PATTERN'"), std::string::npos);
  EXPECT_NE(full_error({"--spectrum_config_path", path("absent.yaml")}).find("absent.yaml"),
            std::string::npos);
  EXPECT_TRUE(
      has_note(run({"--spectrum_config_path", path("absent.yaml")}), "spectrum_config_path: not used"));
}

TEST_F(FullPlan, OptionsOfAdaptersAreNotUsed) {
  const Plan plan =
      full({"--lora_r", "8", "--lora_target_modules", "all-linear", "--init_lora_weights", "pissa"});
  for (const char* name : {"lora_r", "lora_target_modules", "init_lora_weights"})
    EXPECT_TRUE(has_note(plan, std::string(name) + ": not used")) << name;
  EXPECT_FALSE(has_note(full(), "not used"));
  EXPECT_FALSE(has_note(dpo({"--use_peft", "false"}), "lora_dropout"));
  EXPECT_TRUE(has_note(run({"--unfrozen_parameters", "model.norm"}), "unfrozen_parameters: not used"));
}

TEST_F(FullPlan, LayersToTransformAreThoseThatAreTrained) {
  EXPECT_EQ(full({"--layers_to_transform", "0", "3"}).layers_to_transform, (std::vector<std::int64_t>{0, 3}));
  EXPECT_FALSE(has_note(full({"--layers_to_transform", "0"}), "layers_to_transform: not used"));
  EXPECT_NE(full_error({"--layers_to_transform", "x"}).find("numbers of layers, from 0"), std::string::npos);
  EXPECT_NE(full_error({"--layers_to_transform", "1", "--unfrozen_parameters", "model.norm"})
                .find("expected layers_to_transform or unfrozen_parameters"),
            std::string::npos);
}

TEST_F(FullPlan, WhatNeedsAnAdapterIsRefused) {
  EXPECT_NE(full_error({"--load_in_4bit"}).find("expected use_peft: true with load_in_4bit"),
            std::string::npos);
  EXPECT_NE(full_error({"--adapter_name_or_path", path("adapter")}).find("hone merge"), std::string::npos);
  EXPECT_NE(full_error({"--base_adapters", path("adapter")}).find("hone merge"), std::string::npos);
}

}  // namespace full_plan_test
}  // namespace hone::config
