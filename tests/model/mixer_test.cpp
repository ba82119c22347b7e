// A mixer's columns and names are those of the tensors around it, for every family.
#include "model/config/mixer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/families.h"
#include "model/tiny_model.h"

namespace hone::model {
namespace mixer_test {

using namespace hone::test_tools;

class MixerOf : public testing::TestWithParam<const char*> {
 protected:
  ModelConfig config_ = parse_model_config(tiny_config(GetParam()), "test");
};

TEST_P(MixerOf, ColumnsAreThoseOfTheLinearsAroundIt) {
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const Mixer& mixer = config_.mixer(i);
    const MixerColumns columns = mixer.columns(config_, i);
    std::vector<LayerLinear> around;
    for (const LayerLinear& linear : layer_linears(config_, i))
      if (mixer.has_linear(linear.kind)) around.push_back(linear);
    ASSERT_GE(around.size(), 2U);
    std::int64_t before = 0;
    for (const LayerLinear& linear : around) {
      EXPECT_NE(("." + linear.hf).find(mixer.words().path), std::string::npos) << linear.hf;
      before += linear.out;
    }
    EXPECT_EQ(around.back().in, columns.out) << "layer " << i;
    EXPECT_EQ(before - around.back().out, columns.in + columns.gate) << "layer " << i;
  }
}

TEST_P(MixerOf, ALayerKeepsTokensOrAState) {
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const Mixer& mixer = config_.mixer(i);
    EXPECT_EQ(mixer.attends(), mixer.state_bytes(config_, at::kFloat) == 0);
    EXPECT_EQ(mixer.key_columns(config_, i) > 0, mixer.attends() && config_.attention_of(i).has_keys());
    EXPECT_EQ(mixer.attends(), mixer.gradient_stops().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, MixerOf, testing::ValuesIn(every_family()));

TEST(Mixers, WordsOfLayerTypesAreDifferentAndFoundAgain) {
  ModelConfig config;
  config.num_hidden_layers = 3;
  std::set<std::string_view> words, paths;
  for (const char* const word : {"full_attention", "conv", "linear_attention"})
    config.kinds.push_back(kind_of_type(word));
  const std::vector<const Mixer*> all = mixers_of(config);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]->words().layer_type, "full_attention");
  EXPECT_EQ(all[2]->words().layer_type, "linear_attention");
  for (const Mixer* const one : all) {
    words.insert(one->words().subject);
    paths.insert(one->words().path);
  }
  EXPECT_EQ(words.size(), 3U);
  EXPECT_EQ(paths.size(), 3U);
}

}  // namespace mixer_test
}  // namespace hone::model
