// Quantized checkpoints: read as transformers 5.23 saved them, quantized while a plain one is read, written.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/files/safetensors.h"
#include "base/gguf/gguf.h"
#include "model/causal_lm.h"
#include "model/config/planned_bytes.h"
#include "model/files/bnb_files.h"
#include "model/files/export.h"
#include "model/files/gguf_write.h"
#include "model/files/weight_source.h"
#include "model/tiny_model.h"
#include "ops/backend/cpu/quantized_panels.h"

namespace hone::model {
namespace quantized_model_test {

using namespace hone::test_tools;

constexpr ops::QuantScheme kNf4{ops::QuantType::kNf4, true};
constexpr ops::QuantScheme kInt8{ops::QuantType::kInt8, false};

fs::path fixture(const std::string& name) {
  return fs::path(HONE_FIXTURES) / "parity" / name;
}

// Rows of whole blocks, as models have them.
base::Json blocks_config() {
  base::Json config = tiny_config("qwen2");
  config.update({{"hidden_size", 64}, {"intermediate_size", 128}, {"num_hidden_layers", 1}});
  return config;
}

at::Tensor golden(const fs::path& folder, const std::string& name, at::ScalarType dtype) {
  const auto file = base::SafetensorsFile::open(folder / "golden.safetensors");
  const base::StoredTensor* stored = file.find(name);
  at::Tensor out = at::empty(stored->shape, dtype);
  std::copy(stored->bytes.begin(), stored->bytes.end(), static_cast<std::byte*>(out.mutable_data_ptr()));
  return out;
}

at::Tensor logits_of(const CausalLm& model, const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  const std::vector<std::int64_t> list(ids.const_data_ptr<std::int64_t>(),
                                       ids.const_data_ptr<std::int64_t>() + ids.numel());
  return model.logits(model.hidden(make_batch({list}), {}));
}

class Prequantized : public ::testing::TestWithParam<std::pair<const char*, ops::QuantScheme>> {};

TEST_P(Prequantized, ComputesWhatTransformersDoes) {
  const fs::path folder = fixture(GetParam().first);
  const auto source = open_weights(folder);
  const CausalLm model(*source, {});
  ASSERT_TRUE(model.quantized());
  EXPECT_EQ(*model.quantized(), GetParam().second);
  const at::Tensor expected = golden(folder, "logits", at::kFloat);
  EXPECT_LT(largest_difference(logits_of(model, golden(folder, "ids", at::kLong)), expected), 1e-4);
  for (const ops::Linear* linear : static_cast<const CausalLm&>(model).linears()) {
    EXPECT_TRUE(linear->weight.is_quantized()) << linear->name;
  }
}

TEST_P(Prequantized, ShowsMatricesAndNotTheirParts) {
  const auto source = open_weights(fixture(GetParam().first));
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  EXPECT_EQ(source->shape(name), (std::vector<std::int64_t>{64, 128}));
  EXPECT_EQ(*source->quantization(name), GetParam().second);
  EXPECT_FALSE(source->quantization("model.norm.weight").has_value());
  for (const std::string& one : source->names()) {
    EXPECT_EQ(one.find("absmax") + one.find("SCB") + one.find("quant") + one.find("format"),
              4 * std::string::npos)
        << one;
  }
  EXPECT_TRUE(
      at::equal(source->read(name, at::kFloat), ops::dequantize(source->read_quantized(name), at::kFloat)));
}

TEST_P(Prequantized, IsWrittenByteForByte) {
  const TempFolder folder;
  const fs::path from = fixture(GetParam().first), to = folder.path() / "out";
  write_hf_folder(*open_weights(from), to, {.quantize = GetParam().second});
  const auto ours = base::SafetensorsFile::open(to / "model.safetensors");
  const auto theirs = base::SafetensorsFile::open(from / "model.safetensors");
  EXPECT_EQ(ours.tensors().size(), theirs.tensors().size());
  for (const base::StoredTensor& tensor : theirs.tensors()) {
    const base::StoredTensor* found = ours.find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_TRUE(
        std::equal(found->bytes.begin(), found->bytes.end(), tensor.bytes.begin(), tensor.bytes.end()))
        << tensor.name;
    EXPECT_EQ(found->shape, tensor.shape) << tensor.name;
    EXPECT_EQ(found->dtype, tensor.dtype) << tensor.name;
  }
  const base::Json config = base::parse_json(base::read_text(to / "config.json"), "config.json");
  const base::Json recorded = base::parse_json(base::read_text(from / "config.json"), "config.json");
  for (const char* key : {"load_in_4bit", "load_in_8bit", "bnb_4bit_use_double_quant", "quant_method"}) {
    EXPECT_EQ(config["quantization_config"][key], recorded["quantization_config"][key]) << key;
  }
}

// `convert` without load_in_4bit: the numbers that the codes stand for.
TEST_P(Prequantized, IsWrittenInFullWhenNothingElseIsAsked) {
  const TempFolder folder;
  const fs::path from = fixture(GetParam().first), to = folder.path() / "out";
  write_hf_folder(*open_weights(from), to, {.dtype = at::kFloat});
  const auto source = open_weights(to);
  EXPECT_FALSE(source->config().json.contains("quantization_config"));
  const CausalLm full(*source, {});
  EXPECT_FALSE(full.quantized());
  const at::Tensor ids = golden(from, "ids", at::kLong);
  EXPECT_TRUE(at::equal(logits_of(full, ids), logits_of(CausalLm(*open_weights(from), {}), ids)));
}

INSTANTIATE_TEST_SUITE_P(Files, Prequantized,
                         ::testing::Values(std::pair{"tiny_llama_nf4", kNf4},
                                           std::pair{"tiny_llama_int8", kInt8}));

TEST(QuantizedModel, IsTheModelOfItsDequantizedWeights) {
  const TempFolder folder;
  write_model(folder.path() / "in", blocks_config());
  for (const ops::QuantScheme& scheme : {kNf4, kInt8}) {
    const std::string name = "out" + ops::describe(scheme);
    write_hf_folder(*open_weights(folder.path() / "in"), folder.path() / name, {.quantize = scheme});
    const CausalLm loaded(*open_weights(folder.path() / "in"), {}, Storage::kPlain, scheme);
    const CausalLm reread(*open_weights(folder.path() / name), {});
    const at::Tensor ids = at::tensor({3, 4, 5, 6, 7, 8}, at::kLong);
    EXPECT_TRUE(at::equal(logits_of(loaded, ids), logits_of(reread, ids)));
    const auto ours = loaded.frozen_tensors(), theirs = reread.frozen_tensors();
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_EQ(ours[i].first, theirs[i].first);
      EXPECT_TRUE(at::equal(ours[i].second, theirs[i].second)) << ours[i].first;
    }
    const CausalLm plain(*open_weights(folder.path() / "in"), {});
    EXPECT_EQ(loaded.parameter_count(), plain.parameter_count());
    EXPECT_LT(loaded.parameter_bytes(), plain.parameter_bytes());
    EXPECT_FALSE(loaded.head().is_quantized());
    EXPECT_FALSE(at::equal(logits_of(loaded, ids), logits_of(plain, ids)));
  }
}

// Before there are files, from config.json alone.
TEST(PlannedBase, TakesWhatTheModelTakes) {
  for (const bool tied : {false, true}) {
    const TempFolder folder;
    base::Json config = blocks_config();
    config["tie_word_embeddings"] = tied;
    write_model(folder.path(), config);
    const auto source = open_weights(folder.path());
    for (const Quantize& scheme : {Quantize(), Quantize(kNf4), Quantize(kInt8)}) {
      const CausalLm model(*source, {}, Storage::kPlain, scheme);
      EXPECT_EQ(planned_bytes(source->config(), at::kFloat, at::kFloat, scheme), model.parameter_bytes());
    }
  }
}

TEST(PlannedBase, OfSevenBillionParametersIsTold) {
  const TempFolder folder;
  const base::Json config = {{"model_type", "qwen2"},
                             {"architectures", {"Qwen2ForCausalLM"}},
                             {"hidden_size", 3584},
                             {"intermediate_size", 18944},
                             {"num_hidden_layers", 28},
                             {"num_attention_heads", 28},
                             {"num_key_value_heads", 4},
                             {"vocab_size", 152064},
                             {"rms_norm_eps", 1e-6},
                             {"rope_theta", 1e6},
                             {"max_position_embeddings", 32768},
                             {"tie_word_embeddings", false},
                             {"hidden_act", "silu"}};
  base::write_file_atomic(folder.path() / "config.json", base::dump_json(config));
  const std::string said = user_error([&] { open_weights(folder.path()); });
  EXPECT_SAYS(said, "no weights");
  // 7.616 billion numbers; 6.526 billion of them in linears, of 4.127 bits each.
  EXPECT_SAYS(said, "15.23 GB in bfloat16, 5.55 GB with load_in_4bit");
}

TEST(QuantizedModel, QuantizesTheNumbersOfTheResidualsDtype) {
  const TempFolder folder;
  write_model(folder.path(), blocks_config());
  const auto source = open_weights(folder.path());
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const auto up = [&](DtypePolicy dtypes) {
    const CausalLm model(*source, dtypes, Storage::kPlain, kNf4);
    return ops::in_rows(static_cast<const CausalLm&>(model).linears()[5]->weight.quantized());
  };
  // transformers loads in dtype and then quantizes: under autocast that is float32.
  EXPECT_TRUE(at::equal(up({at::kBFloat16, at::kFloat}).codes,
                        ops::quantize(source->read(name, at::kFloat), kNf4, name).codes));
  EXPECT_TRUE(at::equal(up({at::kBFloat16, at::kBFloat16}).codes,
                        ops::quantize(source->read(name, at::kBFloat16), kNf4, name).codes));
}

// A GGUF's blocks: the numbers of the dequantized file, in the autograd form and in decode, in the file's memory.
TEST(QuantizedModel, KeepsTheBlocksOfAGguf) {
  const TempFolder folder;
  base::Json config = tiny_config("llama");  // whose q and k a GGUF interleaves
  config.update({{"hidden_size", 256},
                 {"intermediate_size", 512},
                 {"head_dim", 64},
                 {"num_hidden_layers", 2},
                 {"vocab_size", 96}});
  write_model(folder.path() / "in", config);
  for (const auto& [weights, type] : {std::pair(GgufWeights::kQ8_0, ops::QuantType::kQ8_0),
                                      std::pair(GgufWeights::kQ4_K_M, ops::QuantType::kQ4_K)}) {
    const fs::path file = folder.path() / (std::to_string(static_cast<int>(type)) + ".gguf");
    write_gguf(*open_weights(folder.path() / "in"), file, weights);
    const auto source = open_weights(file);
    for (const DtypePolicy& dtypes :
         {DtypePolicy{at::kBFloat16, at::kBFloat16}, DtypePolicy{at::kFloat, at::kFloat}}) {
      const CausalLm kept(*source, dtypes, Storage::kPlain, {}, at::kCPU, /*keep_blocks=*/true);
      const CausalLm plain(*source, dtypes);
      const SchemeOf own = [&](const std::string& name) { return source->blocks(name, dtypes.linear); };
      EXPECT_EQ(planned_bytes(source->config(), dtypes.linear, dtypes.residual, own), kept.parameter_bytes());
      ASSERT_EQ(kept.held_as(), Quantize(ops::QuantScheme{.type = type}));
      EXPECT_FALSE(kept.quantized() || plain.held_as());
      const at::Tensor ids = at::tensor({3, 4, 5, 6, 7, 8}, at::kLong);
      EXPECT_TRUE(at::equal(logits_of(kept, ids), logits_of(plain, ids)));
      const at::NoGradGuard no_grad;
      KvCache one, other;
      std::vector<KvCache*> ours = {&one}, theirs = {&other};
      for (const std::vector<std::int64_t>& next : {std::vector<std::int64_t>{3, 4, 5}, {6}, {7}})
        EXPECT_TRUE(at::equal(kept.step({next}, ours, {}), plain.step({next}, theirs, {})));
      std::int64_t in_file = 0;
      for (const ops::Linear* linear : kept.linears()) {
        EXPECT_TRUE(linear->weight.is_quantized()) << linear->name;
        EXPECT_TRUE(at::equal(linear->weight.dense(), source->read(linear->name + ".weight", dtypes.linear)));
      }
      // the head and the embedding too; a row that is looked up has the dtype of the residual stream
      EXPECT_TRUE(kept.head().is_quantized());
      EXPECT_TRUE(at::equal(kept.embed({5, 95, 6}), plain.embed({5, 95, 6})));
      EXPECT_TRUE(at::equal(kept.head().slice(32, 96).dense(), plain.head().dense().narrow(0, 32, 64)));
      std::int64_t held = kept.parameter_bytes();
      for (const DecoderLayer& layer : kept.layers()) {
        for (const at::Tensor& norm : layer.stored.weights)
          held -= norm.defined() ? static_cast<std::int64_t>(norm.nbytes()) : 0;
      }
      held -= static_cast<std::int64_t>(kept.final_norm().nbytes());
      const base::GgufFile stored = base::GgufFile::open(file);
      for (const base::GgufTensor& tensor : stored.tensors())
        if (tensor.shape.size() == 2) in_file += static_cast<std::int64_t>(tensor.bytes.size());
      EXPECT_LE(held, in_file * 103 / 100);
      // load_in_4bit comes before it
      const CausalLm again(*source, dtypes, Storage::kPlain, kNf4, at::kCPU, /*keep_blocks=*/true);
      EXPECT_EQ(again.quantized(), Quantize(kNf4));
    }
  }
}

// Granite 4 has gate and up in one matrix, a GGUF has them apart.
TEST(QuantizedModel, KeepsTheBlocksOfAMatrixThatAGgufHasInTwo) {
  const TempFolder folder;
  base::Json config = tiny_config("granitemoehybrid");
  config.update(
      {{"hidden_size", 256}, {"shared_intermediate_size", 256}, {"head_dim", 64}, {"vocab_size", 96}});
  write_model(folder.path() / "in", config);
  for (const GgufWeights weights : {GgufWeights::kQ8_0, GgufWeights::kQ4_K_M}) {
    const fs::path file = folder.path() / (std::to_string(static_cast<int>(weights)) + ".gguf");
    write_gguf(*open_weights(folder.path() / "in"), file, weights);
    const auto source = open_weights(file);
    const DtypePolicy dtypes = {at::kBFloat16, at::kBFloat16};
    const CausalLm kept(*source, dtypes, Storage::kPlain, {}, at::kCPU, /*keep_blocks=*/true);
    for (const ops::Linear* linear : kept.linears()) {
      ASSERT_TRUE(linear->weight.is_quantized()) << linear->name;
      EXPECT_TRUE(at::equal(linear->weight.dense(), source->read(linear->name + ".weight", dtypes.linear)))
          << linear->name;
    }
    const at::Tensor ids = at::tensor({3, 4, 5, 6, 7, 8}, at::kLong);
    EXPECT_TRUE(at::equal(logits_of(kept, ids), logits_of(CausalLm(*source, dtypes), ids)));
  }
}

TEST(QuantizedModel, NamesWhatIsWrongInAFile) {
  const TempFolder folder;
  write_model(folder.path(), blocks_config());
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  auto tensors = random_tensors(blocks_config());
  const ops::Quantized matrix = ops::quantize(tensors[name], kNf4, name);
  const auto written = [&](const std::function<void(std::vector<base::StoredTensor>&)>& damage) {
    std::vector<std::pair<std::string, at::Tensor>> held = bnb_tensors(matrix, name);
    for (const auto& [other, t] : tensors) {
      if (other != name) held.emplace_back(other, t);
    }
    std::vector<base::StoredTensor> stored;
    for (const auto& [one, t] : held) {
      const bool bytes = t.scalar_type() == at::kByte;
      stored.push_back({one,
                        bytes ? base::DType::kU8 : base::DType::kF32,
                        t.sizes().vec(),
                        {static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()}});
    }
    damage(stored);
    base::write_safetensors(folder.path() / "model.safetensors", stored, {});
    return user_error([&] { CausalLm(*open_weights(folder.path()), {}); });
  };
  EXPECT_EQ(written([](auto&) {}), "");
  const std::string absent = written([](auto& stored) { stored.erase(stored.begin() + 1); });
  EXPECT_SAYS(absent, name + ".absmax");
  const std::string cut = written([](auto& stored) {
    stored[0].bytes = stored[0].bytes.first(100);
    stored[0].shape = {100, 1};
  });
  EXPECT_SAYS(cut, "4096 bytes");
  const std::string garbled = written([](auto& stored) {
    stored[5].bytes = stored[5].bytes.first(20);
    stored[5].shape = {20};
  });
  EXPECT_SAYS(garbled, "quant_state");
}

TEST(QuantizedModel, RefusesNumbersThatAreNotFinite) {
  const TempFolder folder;
  write_model(folder.path(), blocks_config());
  auto tensors = random_tensors(blocks_config());
  tensors["model.layers.0.mlp.up_proj.weight"][3][4] = std::nanf("");
  write_tensors(folder.path() / "model.safetensors", tensors);
  EXPECT_SAYS(user_error([&] { CausalLm(*open_weights(folder.path()), {}, Storage::kPlain, kNf4); }),
              "model.layers.0.mlp.up_proj.weight");
}

}  // namespace quantized_model_test
}  // namespace hone::model
