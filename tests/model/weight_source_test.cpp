#include "model/files/weight_source.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/causal_lm.h"
#include "model/files/export.h"
#include "model/gguf_writer.h"
#include "model/tiny_model.h"
#include "ops/rope.h"

namespace hone::model {
namespace weight_source_test {

using namespace hone::test_tools;
using base::Json;

at::Tensor some_logits(const fs::path& path) {
  const CausalLm model(*open_weights(path), {});
  return model.logits(model.hidden(make_batch({{3, 4, 5, 6}}), {}));
}

void write_shards(const fs::path& folder, const Json& config) {
  write_json(folder / "config.json", config);
  std::map<std::string, at::Tensor> first, second;
  Json map = Json::object();
  for (const auto& [name, tensor] : random_tensors(config)) {
    const bool early = map.size() < 8;
    (early ? first : second)[name] = tensor;
    map[name] = early ? "model-00001-of-00002.safetensors" : "model-00002-of-00002.safetensors";
  }
  write_tensors(folder / "model-00001-of-00002.safetensors", first);
  write_tensors(folder / "model-00002-of-00002.safetensors", second);
  write_json(folder / "model.safetensors.index.json",
             {{"metadata", {{"total_size", 1}}}, {"weight_map", map}});
}

TEST(WeightSource, ReadsShardsAsOneFile) {
  const TempFolder whole, shards;
  write_model(whole.path(), tiny_config("llama"));
  write_shards(shards.path(), tiny_config("llama"));
  EXPECT_TRUE(at::equal(some_logits(whole.path()), some_logits(shards.path())));
}

TEST(WeightSource, NamesAnAbsentShardOrTensorOfTheIndex) {
  const TempFolder folder;
  write_shards(folder.path(), tiny_config("llama"));
  const fs::path index = folder.path() / "model.safetensors.index.json";
  const Json good = base::parse_json(base::read_text(index), "index");
  Json bad = good;
  bad["weight_map"]["model.norm.weight"] = "model-00001-of-00002.safetensors";
  write_json(index, bad);
  std::string message = user_error([&] { open_weights(folder.path()); });
  EXPECT_SAYS(message, "model.norm.weight in model-00001-of-00002.safetensors");
  bad["weight_map"]["model.norm.weight"] = "../elsewhere.safetensors";
  write_json(index, bad);
  EXPECT_SAYS(user_error([&] { open_weights(folder.path()); }), "a file of this folder");
  write_json(index, Json::object());
  EXPECT_SAYS(user_error([&] { open_weights(folder.path()); }), "weight_map");
  write_json(index, good);
  fs::remove(folder.path() / "model-00002-of-00002.safetensors");
  EXPECT_SAYS(user_error([&] { open_weights(folder.path()); }), "the shard model-00002-of-00002.safetensors");
}

TEST(WeightSource, ReadsAnyFloatTypeIntoTheAskedOne) {
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    const TempFolder folder;
    write_model(folder.path(), tiny_config("llama"), 1, dtype);
    const auto source = open_weights(folder.path());
    EXPECT_EQ(source->stored_dtype("lm_head.weight"), dtype);
    const at::Tensor expected =
        random_tensors(tiny_config("llama"))["lm_head.weight"].to(dtype).to(at::kFloat);
    EXPECT_TRUE(at::equal(source->read("lm_head.weight", at::kFloat), expected));
  }
}

TEST(WeightSource, ReadsIntoRowsOfAConcatenatedMatrix) {
  const TempFolder folder;
  write_model(folder.path(), tiny_config("llama"));
  const auto source = open_weights(folder.path());
  const std::string q = "model.layers.0.self_attn.q_proj.weight",
                    k = "model.layers.0.self_attn.k_proj.weight";
  const std::int64_t rows = source->shape(q)[0], more = source->shape(k)[0];
  const at::Tensor concat = at::zeros({rows + more + 1, source->shape(q)[1]}, at::kBFloat16);
  source->read_into(q, concat.narrow(0, 0, rows));
  source->read_into(k, concat.narrow(0, rows, more));
  EXPECT_TRUE(at::equal(concat.narrow(0, 0, rows), source->read(q, at::kBFloat16)));
  EXPECT_TRUE(at::equal(concat.narrow(0, rows, more), source->read(k, at::kFloat).to(at::kBFloat16)));
  EXPECT_EQ(concat[rows + more].abs().sum().item<float>(), 0.0F);
  EXPECT_THROW(source->read_into(q, concat), base::InternalError);
}

TEST(WeightSource, TakesEosFromBothConfigs) {
  const TempFolder folder;
  write_model(folder.path(), tiny_config("llama"));
  write_json(folder.path() / "generation_config.json", {{"eos_token_id", {2, 9}}});
  EXPECT_EQ(open_weights(folder.path())->config().eos_token_ids, (std::vector<std::int64_t>{2, 9}));
}

TEST(WeightSource, SaysWhatIsNotAModel) {
  const TempFolder folder;
  EXPECT_SAYS(user_error([&] { open_weights(folder.path() / "nothing"); }), "nothing there");
  EXPECT_SAYS(user_error([&] { open_weights(folder.path()); }), "config.json");
  write_json(folder.path() / "config.json", tiny_config("llama"));
  EXPECT_SAYS(user_error([&] { open_weights(folder.path()); }), "no weights");
  base::write_file_atomic(folder.path() / "pytorch_model.bin", "x");
  EXPECT_SAYS(user_error([&] { open_weights(folder.path()); }), "does not read pickled files");
  base::write_file_atomic(folder.path() / "a.safetensors", "x");
  EXPECT_SAYS(user_error([&] { open_weights(folder.path() / "a.safetensors"); }),
              "give the folder that contains it");
  base::write_file_atomic(folder.path() / "a.gguf", "not a gguf");
  EXPECT_NE(user_error([&] { open_weights(folder.path() / "a.gguf"); }), "");
}

TEST(WeightSource, NamesAnAbsentTensorWithANeighbor) {
  const TempFolder folder;
  write_model(folder.path(), tiny_config("llama"));
  const auto source = open_weights(folder.path());
  EXPECT_SAYS(user_error([&] { source->read("lm_hed.weight", at::kFloat); }),
              "Did you mean 'lm_head.weight'");
}

// What llama.cpp's converter does to Q and K rows of the llama family.
at::Tensor permute_rows(const at::Tensor& w, std::int64_t heads) {
  return w.reshape({heads, 2, w.size(0) / heads / 2, -1}).transpose(1, 2).reshape(w.sizes()).contiguous();
}

GgufWriter tiny_gguf(const Json& config) {
  const std::string arch = config["model_type"];
  const ModelConfig c = parse_model_config(config, "test");
  const auto u32 = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  GgufWriter file;
  file.metadata = {{"general.architecture", arch},
                   {arch + ".embedding_length", u32(c.hidden_size)},
                   {arch + ".block_count", u32(c.num_hidden_layers)},
                   {arch + ".feed_forward_length", u32(c.intermediate_size)},
                   {arch + ".attention.head_count", u32(c.num_attention_heads)},
                   {arch + ".attention.head_count_kv", u32(c.num_key_value_heads)},
                   {arch + ".attention.key_length", u32(c.head_dim)},
                   {arch + ".context_length", u32(c.max_position_embeddings)},
                   {arch + ".attention.layer_norm_rms_epsilon", 1e-5F},
                   {arch + ".rope.freq_base", static_cast<float>(c.rope_theta)},
                   {"tokenizer.ggml.eos_token_id", u32(2)}};
  auto tensors = random_tensors(config);
  for (const TensorSpec& spec : expected_tensors(c)) {
    at::Tensor t = tensors[spec.name];
    if (spec.permuted_heads > 0) t = permute_rows(t, spec.permuted_heads);
    file.tensors.emplace_back(spec.gguf_name, t);
  }
  return file;
}

TEST(Gguf, GivesTheLogitsOfTheSameFolder) {
  for (const char* family : {"llama", "qwen2", "qwen3"}) {
    Json config = tiny_config(family);
    if (std::string(family) == "llama") config["attention_bias"] = true;  // biases are permuted too
    const TempFolder folder;
    write_model(folder.path() / "hf", config);
    tiny_gguf(config).write(folder.path() / "m.gguf");
    EXPECT_TRUE(at::equal(some_logits(folder.path() / "hf"), some_logits(folder.path() / "m.gguf")))
        << family;
  }
}

TEST(Gguf, ExportsTheGenerationConfigThatTransformersMakesOfItsConfig) {
  const TempFolder folder;
  tiny_gguf(tiny_config("llama")).write(folder.path() / "m.gguf");
  write_hf_folder(*open_weights(folder.path() / "m.gguf"), folder.path() / "out", {});
  const fs::path file = folder.path() / "out" / "generation_config.json";
  const Json made = base::parse_json(base::read_text(file), file.string());
  EXPECT_EQ(made.at("_from_model_config"), true);
  EXPECT_EQ(made.at("use_cache"), true);
}

TEST(Gguf, TiesTheHeadWhenThereIsNone) {
  Json config = tiny_config("llama");
  config["tie_word_embeddings"] = true;
  const TempFolder folder;
  tiny_gguf(config).write(folder.path() / "m.gguf");
  const auto source = open_weights(folder.path() / "m.gguf");
  EXPECT_TRUE(source->config().tie_word_embeddings);
  EXPECT_EQ(source->config().eos_token_ids, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(source->config().rms_norm_eps, 1e-5);  // not 9.999999747378752e-06
}

TEST(Gguf, RecoversLlama3ScalingFromItsFactors) {
  Json config = tiny_config("llama");
  config["rope_theta"] = 500000.0;
  config["head_dim"] = 64;
  GgufWriter file = tiny_gguf(config);
  const at::Tensor plain = ops::rope_inverse_frequencies(500000.0, 64);
  ops::Llama3Scaling scaling;
  scaling.factor = 32;
  file.tensors.emplace_back("rope_freqs.weight", plain / ops::rope_scale_llama3(plain, scaling));
  const TempFolder folder;
  file.write(folder.path() / "m.gguf");
  const auto source = open_weights(folder.path() / "m.gguf");
  ASSERT_TRUE(source->config().rope_llama3);
  EXPECT_EQ(source->config().rope_llama3->factor, 32.0);
  file.tensors.back().second = at::linspace(1, 32, 32);
  file.write(folder.path() / "m.gguf");
  EXPECT_SAYS(user_error([&] { open_weights(folder.path() / "m.gguf"); }), "rope_freqs.weight");
}

TEST(Gguf, ReadsTheLocalRotationAndThePatternOfAGemma3WhereTheyAre) {
  GgufWriter file = tiny_gguf(tiny_config("gemma3_text"));
  for (auto& [key, value] : file.metadata) {
    if (key == "general.architecture") value = std::string("gemma3");
    if (key.starts_with("gemma3_text.")) key.replace(0, std::string("gemma3_text").size(), "gemma3");
  }
  file.metadata.emplace_back("gemma3.attention.sliding_window", std::uint32_t{20});
  const TempFolder folder;
  const auto config = [&] {
    file.write(folder.path() / "m.gguf");
    return open_weights(folder.path() / "m.gguf")->config();
  };
  EXPECT_EQ(config().local_rope_theta, 10000.0);
  EXPECT_EQ(config().attention.at(1).window, 20);
  file.metadata.emplace_back("gemma3.attention.sliding_window_pattern", std::uint32_t{2});
  file.metadata.emplace_back("gemma3.rope.freq_base_swa", 5000.0F);
  EXPECT_EQ(config().local_rope_theta, 5000.0);
  EXPECT_EQ(config().attention.at(1).window, 0);
}

TEST(Gguf, RefusesWhatItCannotHonor) {
  const TempFolder folder;
  const fs::path path = folder.path() / "m.gguf";
  GgufWriter file = tiny_gguf(tiny_config("llama"));
  const auto error_with = [&](const std::string& key, const MetaValue& value) {
    GgufWriter bad = file;
    std::erase_if(bad.metadata, [&](const auto& entry) { return entry.first == key; });
    bad.metadata.emplace_back(key, value);
    bad.write(path);
    return user_error([&] { CausalLm(*open_weights(path), {}); });
  };
  EXPECT_SAYS(error_with("general.architecture", std::string("mamba")), "'mamba'");
  EXPECT_SAYS(error_with("llama.rope.scaling.type", std::string("cubic")), "'cubic'");
  EXPECT_SAYS(error_with("llama.rope.dimension_count", std::uint32_t{4}), "the head dimension 8");
  GgufWriter windows = tiny_gguf(tiny_config("qwen2"));
  windows.metadata.emplace_back("qwen2.attention.sliding_window", std::uint32_t{64});
  windows.write(path);
  EXPECT_SAYS(user_error([&] { open_weights(path); }), "does not say which layers have the window");
  EXPECT_SAYS(error_with("llama.block_count", std::uint32_t{3}), "model.layers.2.");
  EXPECT_SAYS(error_with("llama.block_count", std::uint32_t{1}), "blk.1.");
}

// llama.cpp has one architecture for both.
TEST(Gguf, ALlamaWithAWindowIsAMistral) {
  const TempFolder folder;
  GgufWriter file = tiny_gguf(tiny_config("llama"));
  file.write(folder.path() / "without.gguf");
  file.metadata.emplace_back("llama.attention.sliding_window", std::uint32_t{64});
  file.write(folder.path() / "with.gguf");
  EXPECT_EQ(open_weights(folder.path() / "without.gguf")->config().family, Family::kLlama);
  const auto source = open_weights(folder.path() / "with.gguf");
  EXPECT_EQ(source->config().family, Family::kMistral);
  EXPECT_EQ(source->config().attention_of(1).window, 64);
  EXPECT_EQ(source->config().json["model_type"], "mistral");
}

TEST(Export, WritesAFolderThatGivesTheSameLogits) {
  Json config = tiny_config("llama");
  config["attention_bias"] = true;
  const TempFolder folder;
  tiny_gguf(config).write(folder.path() / "m.gguf");
  const auto source = open_weights(folder.path() / "m.gguf");
  const ExportFacts facts = write_hf_folder(*source, folder.path() / "out", {});
  EXPECT_EQ(facts.files, 1);
  EXPECT_FALSE(facts.tokenizer);
  EXPECT_TRUE(at::equal(some_logits(folder.path() / "out"), some_logits(folder.path() / "m.gguf")));
  const Json written = base::parse_json(base::read_text(folder.path() / "out" / "config.json"), "config");
  EXPECT_EQ(written["architectures"][0], "LlamaForCausalLM");
  EXPECT_EQ(written["torch_dtype"], "float32");
  EXPECT_EQ(written["eos_token_id"], 2);
}

TEST(Export, CastsAndShards) {
  const TempFolder folder;
  write_model(folder.path() / "in", tiny_config("qwen3"));
  const auto source = open_weights(folder.path() / "in");
  ExportOptions options;
  options.dtype = at::kBFloat16;
  options.shard_bytes = 8000;
  const ExportFacts facts = write_hf_folder(*source, folder.path() / "out", options);
  EXPECT_GT(facts.files, 2);
  const auto back = open_weights(folder.path() / "out");
  EXPECT_EQ(back->names(), source->names());
  for (const std::string& name : back->names()) {
    EXPECT_EQ(back->stored_dtype(name), at::kBFloat16);
    EXPECT_TRUE(at::equal(back->read(name, at::kBFloat16), source->read(name, at::kBFloat16))) << name;
  }
  EXPECT_EQ(back->config().json["torch_dtype"], "bfloat16");
}

TEST(Export, RefusesAFolderThatHoldsSomething) {
  const TempFolder folder;
  write_model(folder.path() / "in", tiny_config("llama"));
  const auto source = open_weights(folder.path() / "in");
  const std::string message = user_error([&] { write_hf_folder(*source, folder.path() / "in", {}); });
  EXPECT_SAYS(message, "a new or empty folder");
  EXPECT_EQ(some_logits(folder.path() / "in").size(1), 48);
}

}  // namespace weight_source_test
}  // namespace hone::model
