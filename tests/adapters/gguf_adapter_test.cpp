// A LoRA as a GGUF of its own: llama.cpp's names and rule for the scale, PEFT's product.
#include "adapters/gguf_adapter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "base/gguf/gguf.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace gguf_adapter_test {

using base::GgmlType;
using test_tools::TempFolder;

const base::fs::path kFixtures = base::fs::path(HONE_FIXTURES) / "parity";

at::Tensor read(const base::GgufFile& file, const std::string& name) {
  const base::GgufTensor* tensor = file.find(name);
  if (tensor == nullptr) throw std::runtime_error("no tensor " + name);
  at::Tensor out = at::empty(tensor->shape);
  base::dequantize(*tensor, {out.mutable_data_ptr<float>(), static_cast<std::size_t>(out.numel())});
  return out;
}

// Hugging Face's order of rows from llama.cpp's, written down apart from model/files/gguf_tensors.
at::Tensor halves(const at::Tensor& w, std::int64_t heads) {
  const std::int64_t width = w.size(0) / heads;
  std::vector<at::Tensor> rows;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (const std::int64_t parity : {0, 1}) {
      for (std::int64_t i = parity; i < width; i += 2) rows.push_back(w[head * width + i]);
    }
  }
  return at::stack(rows);
}

struct Opened {
  model::ModelConfig config;
  StoredAdapter adapter;
};
Opened open(const std::string& family, const std::string& adapter) {
  const model::ModelConfig config = model::open_weights(kFixtures / family)->config();
  return {config, read_adapter(kFixtures / family / adapter, config)};
}

TEST(GgufAdapter, LlamaCppsProductIsPefts) {
  for (const auto& [family, name] :
       {std::pair("tiny_llama", "adapter"), {"tiny_llama", "adapter_rslora"}, {"tiny_qwen3", "adapter"}}) {
    const TempFolder temp;
    const Opened opened = open(family, name);
    const auto facts = write_gguf_adapter(opened.adapter, opened.config, kFixtures / family / name,
                                          temp.path() / "a.gguf", GgmlType::kF32);
    const base::GgufFile file = base::GgufFile::open(temp.path() / "a.gguf");
    EXPECT_EQ(facts.modules, static_cast<std::int64_t>(opened.adapter.modules.size()));
    EXPECT_EQ(file.tensors().size(), opened.adapter.modules.size() * 2);
    EXPECT_EQ(file.require_string("general.type"), "adapter");
    EXPECT_EQ(file.require_string("adapter.type"), "lora");
    EXPECT_EQ(file.require_string("general.architecture"), std::string(family).substr(5));
    const double alpha = file.require_float("adapter.lora.alpha");
    std::map<std::string, model::TensorSpec> weights;
    for (const auto& spec : model::expected_tensors(opened.config)) weights[spec.name] = spec;
    int interleaved = 0;
    for (const StoredLora& module : opened.adapter.modules) {
      const model::TensorSpec& spec = weights.at(module.module + ".weight");
      const at::Tensor a = read(file, spec.gguf_name + ".lora_a");
      at::Tensor b = read(file, spec.gguf_name + ".lora_b");
      if (spec.permuted_heads > 0) {
        ++interleaved;
        b = halves(b, spec.permuted_heads);
      }
      EXPECT_TRUE(at::equal(a, module.a)) << module.module;
      EXPECT_TRUE(at::equal(b, module.b)) << module.module;
      EXPECT_NEAR(alpha / static_cast<double>(b.size(1)), opened.adapter.config.scale(),
                  1e-6);  // llama_adapter_lora_weight::get_scale
    }
    EXPECT_EQ(interleaved > 0, std::string(family) == "tiny_llama");
  }
}

// Granite 4 has gate and up in one linear, llama.cpp apart: both get A, and each its rows of B.
TEST(GgufAdapter, OfOneMatrixThatAGgufHasInTwo) {
  const TempFolder temp;
  const Opened opened = open("tiny_granite4", "adapter");
  (void)write_gguf_adapter(opened.adapter, opened.config, "folder", temp.path() / "a.gguf", GgmlType::kF32);
  const base::GgufFile file = base::GgufFile::open(temp.path() / "a.gguf");
  EXPECT_EQ(file.require_string("general.architecture"), "granite");
  EXPECT_EQ(file.tensors().size(), 2U * 7 * 2);
  int found = 0;
  for (const StoredLora& module : opened.adapter.modules) {
    if (!module.module.ends_with("input_linear")) continue;
    const std::string layer = "blk." + std::to_string(found++) + ".";
    const std::vector<at::Tensor> halves = module.b.chunk(2, 0);
    EXPECT_TRUE(at::equal(read(file, layer + "ffn_gate.weight.lora_a"), module.a));
    EXPECT_TRUE(at::equal(read(file, layer + "ffn_up.weight.lora_a"), module.a));
    EXPECT_TRUE(at::equal(read(file, layer + "ffn_gate.weight.lora_b"), halves[0]));
    EXPECT_TRUE(at::equal(read(file, layer + "ffn_up.weight.lora_b"), halves[1]));
  }
  EXPECT_EQ(found, 2);
}

TEST(GgufAdapter, RefusesWhatTheFormatLacks) {
  const TempFolder temp;
  const auto refused = [&](const Opened& opened, GgmlType type) {
    try {
      write_gguf_adapter(opened.adapter, opened.config, "folder", temp.path() / "a.gguf", type);
    } catch (const base::UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* words) {
    return text.find(words) != std::string::npos;
  };
  EXPECT_TRUE(has(refused(open("tiny_llama", "adapter_dora"), GgmlType::kF32), "DoRA"));
  EXPECT_TRUE(has(refused(open("tiny_llama", "adapter_tokens"), GgmlType::kF32), "trainable_token_indices"));
  EXPECT_TRUE(has(refused(open("tiny_gemma4", "adapter"), GgmlType::kF32), "per_layer_model_projection"));
  Opened large = open("tiny_llama", "adapter");
  large.adapter.modules.front().b = large.adapter.modules.front().b + 7e4;
  EXPECT_TRUE(has(refused(large, GgmlType::kF16), "largest F16"));
  large.adapter.modules.front().b.fill_(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(has(refused(large, GgmlType::kF32), "not-a-number"));
  EXPECT_FALSE(base::fs::exists(temp.path() / "a.gguf"));
  EXPECT_EQ(refused(open("tiny_llama", "adapter"), GgmlType::kF16), "");
  EXPECT_TRUE(has(refused(open("tiny_llama", "adapter"), GgmlType::kF16), "exists already"));
}

}  // namespace gguf_adapter_test
}  // namespace hone::adapters
