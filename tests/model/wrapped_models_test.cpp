// Folders of models with images, of which hone trains the text model: how they are read, and written back whole.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/safetensors.h"
#include "base/json.h"
#include "model/causal_lm.h"
#include "model/config/families.h"
#include "model/config/wrappers.h"
#include "model/files/export.h"
#include "model/files/weight_source.h"

namespace hone::model {
namespace wrapped_models_test {

namespace fs = base::fs;
using base::Json;

const fs::path kGemma = fs::path(HONE_FIXTURES) / "parity" / "tiny_gemma3_images";

Json config_of(const fs::path& folder) {
  return base::parse_json(base::read_text(folder / "config.json"), "config.json");
}

std::map<std::string, std::string> bytes_of(const base::SafetensorsFile& file) {
  std::map<std::string, std::string> out;
  for (const base::StoredTensor& t : file.tensors())
    out[t.name] = std::string(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
  return out;
}

// A folder of its own for each test, removed with it.
class WrappedModels : public testing::Test {
 protected:
  WrappedModels() { fs::create_directories(folder_); }
  ~WrappedModels() override { fs::remove_all(folder_); }

  std::string refusal(const Json& config) const {
    try {
      parse_model_config(config, "config.json");
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_ = fs::temp_directory_path() / ("hone_wrapped_" + std::to_string(getpid()));
};

TEST_F(WrappedModels, TheTextModelHasTheNamesOfTheWholeModelsClass) {
  const ModelConfig config = parse_model_config(config_of(kGemma), "config.json");
  EXPECT_EQ(config.family, Family::kGemma3);
  EXPECT_TRUE(config.wrapped);
  EXPECT_TRUE(config.tie_word_embeddings);  // the class's default: the file does not say
  EXPECT_EQ(config.json, config_of(kGemma));
  EXPECT_EQ(adaptable_linears(config).front().name, "model.language_model.layers.0.self_attn.q_proj");
  EXPECT_EQ(names_of(config).head.hf, "lm_head");
  const CausalLm model(*open_weights(kGemma), {});
  EXPECT_EQ(model.linears().front()->name, "model.language_model.layers.0.self_attn.q_proj");
}

TEST_F(WrappedModels, WhatIsWrittenHasEveryTensorOfTheFileUnderItsName) {
  write_hf_folder(*open_weights(kGemma), folder_ / "out", {});
  const auto source = base::SafetensorsFile::open(kGemma / "model.safetensors"),
             written = base::SafetensorsFile::open(folder_ / "out" / "model.safetensors");
  EXPECT_EQ(bytes_of(source), bytes_of(written));
  EXPECT_EQ(config_of(kGemma), config_of(folder_ / "out"));
  EXPECT_TRUE(fs::exists(folder_ / "out" / "tokenizer.json"));
}

TEST_F(WrappedModels, AnAdjustedTensorIsWrittenUnderTheNameOfTheFile) {
  const std::string norm = "model.language_model.norm.weight";
  write_hf_folder(*open_weights(kGemma), folder_ / "out", {},
                  [&](const std::string& name) -> std::optional<at::Tensor> {
                    if (name != norm) return std::nullopt;
                    return at::full({32}, 2.5F);
                  });
  const std::unique_ptr<WeightSource> written = open_weights(folder_ / "out");
  EXPECT_TRUE(written->read(norm, at::kFloat).eq(2.5).all().item<bool>());
  EXPECT_EQ(written->stored_name(norm), "language_model.model.norm.weight");
  EXPECT_EQ(written->other_parts().size(), open_weights(kGemma)->other_parts().size());
}

TEST_F(WrappedModels, FilesWithTransformers5sNamesAreTheSame) {
  const auto source = base::SafetensorsFile::open(kGemma / "model.safetensors");
  std::vector<base::StoredTensor> renamed = source.tensors();
  for (base::StoredTensor& t : renamed) t.name = text_tensor_name(t.name).value_or("model." + t.name);
  base::write_safetensors(folder_ / "model.safetensors", renamed, {});
  fs::copy_file(kGemma / "config.json", folder_ / "config.json");
  const std::unique_ptr<WeightSource> old_names = open_weights(kGemma), new_names = open_weights(folder_);
  EXPECT_EQ(old_names->names(), new_names->names());
  for (const std::string& name : old_names->names())
    EXPECT_TRUE(old_names->read(name, at::kFloat).equal(new_names->read(name, at::kFloat))) << name;
}

// The text model's embedding is made of text_config alone.
TEST_F(WrappedModels, PaddingIsTheTextModelsOwn) {
  Json config = config_of(kGemma);
  config["pad_token_id"] = 3;
  config["text_config"]["pad_token_id"] = 5;
  EXPECT_EQ(parse_model_config(config, "test").pad_token_id, 5);
  config["text_config"].erase("pad_token_id");
  EXPECT_EQ(parse_model_config(config, "test").pad_token_id, 0) << "Gemma3TextConfig's";
}

TEST_F(WrappedModels, ATextConfigThatIsMissingOrOfAnotherKindIsRefused) {
  Json config = config_of(kGemma);
  config.erase("text_config");
  EXPECT_NE(refusal(config).find("an object text_config"), std::string::npos) << refusal(config);
  config = config_of(kGemma);
  config["text_config"]["model_type"] = "gemma3";
  EXPECT_NE(refusal(config).find("text_config.model_type"), std::string::npos) << refusal(config);
  config["text_config"]["model_type"] = "mamba";
  EXPECT_NE(refusal(config).find("it has no state space"), std::string::npos) << refusal(config);
}

TEST_F(WrappedModels, QuantizationWouldReachTheOtherPartsAndIsRefused) {
  ExportOptions options;
  options.quantize = ops::QuantScheme{.type = ops::QuantType::kNf4};
  EXPECT_THROW(write_hf_folder(*open_weights(kGemma), folder_ / "out", options), base::UserError);
  EXPECT_FALSE(fs::exists(folder_ / "out"));
}

}  // namespace wrapped_models_test
}  // namespace hone::model
