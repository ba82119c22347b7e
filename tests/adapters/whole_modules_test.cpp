// PEFT's modules_to_save and bias, and LoRA on the head and the embedding, as files and in the model. Numbers beside
// PEFT's: tests/parity/tiny_models_test.cpp.
#include "adapters/whole_modules.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "adapters/adapter_set.h"
#include "adapters/combine.h"
#include "adapters/frozen_adapters.h"
#include "adapters/gguf_adapter.h"
#include "adapters/merge.h"
#include "adapters/peft_files.h"
#include "base/gguf/gguf.h"
#include "model/files/gguf_write.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace whole_modules_test {

using namespace hone::test_tools;
using base::Json;

struct Setting {
  explicit Setting(bool tied, const std::string& family = "llama", std::int64_t pad = 0) {
    Json config = tiny_config(family);
    config["tie_word_embeddings"] = tied;
    config["pad_token_id"] = pad;
    write_model(base(), config);
    source = model::open_weights(base());
    model.emplace(*source, model::DtypePolicy{});
  }
  fs::path base() const { return folder.path() / "base"; }
  fs::path adapter() const { return folder.path() / "adapter"; }
  at::Tensor logits(const ops::PassContext& pass = {}) const { return logits_of(*model, pass); }
  // In both forms, which are the same.
  static at::Tensor logits_of(const model::CausalLm& lm, const ops::PassContext& pass = {}) {
    const at::NoGradGuard no_grad;
    const at::Tensor hidden = lm.hidden(make_batch({{5, 9, 11, 9, 30}}), pass);
    const at::Tensor out = lm.logits(hidden, pass);
    EXPECT_LT(largest_difference(out, lm.autograd_logits(hidden, pass)), 1e-5);
    model::KvCache cache;
    std::vector<model::KvCache*> caches = {&cache};
    const at::Tensor last = lm.logits(lm.step({{5, 9, 11, 9, 30}}, caches, pass), pass);
    EXPECT_LT(largest_difference(last, out.narrow(0, 4, 1)), 1e-4);
    return out;
  }

  TempFolder folder;
  std::unique_ptr<model::WeightSource> source;
  std::optional<model::CausalLm> model;
};

LoraConfig lora(std::vector<std::string> targets, std::vector<std::string> saved = {},
                TrainedBias bias = TrainedBias::kNone) {
  LoraConfig out;
  out.r = 4;
  out.target_modules = std::move(targets);
  out.modules_to_save = std::move(saved);
  out.bias = bias;
  return out;
}

void move(const Adapter& adapter) {
  const at::NoGradGuard no_grad;
  adapter.flat().add_(at::sin(at::arange(adapter.flat().numel(), at::kFloat)), 0.1);
}

std::vector<std::string> names_of(const LoraConfig& config, const model::ModelConfig& model) {
  std::vector<std::string> out;
  for (const WholeTensor& tensor : whole_tensors(config, model, select_targets(config, model, true), true))
    out.push_back(tensor.name + " " + tensor.key.substr(std::string("base_model.model.").size()));
  return out;
}

TEST(WholeModules, AreNamedByTheEndOfTheirNames) {
  Setting s(true, "qwen2");
  const model::ModelConfig& model = s.model->config();
  EXPECT_EQ(
      names_of(lora({"q_proj"}, {"lm_head", "model.norm"}), model),
      (std::vector<std::string>{"model.norm.weight model.norm.weight", "lm_head.weight lm_head.weight"}));
  EXPECT_EQ(names_of(lora({"q_proj"}, {"norm"}), model).size(), 5U);  // of 2 layers, and the last
  EXPECT_EQ(names_of(lora({"q_proj"}, {}, TrainedBias::kAll), model).size(), 6U);
  EXPECT_EQ(names_of(lora({"0.self_attn.q_proj", "o_proj"}, {}, TrainedBias::kLoraOnly), model),
            (std::vector<std::string>{
                "model.layers.0.self_attn.q_proj.bias model.layers.0.self_attn.q_proj.base_layer.bias"}));
  EXPECT_SAYS(user_error([&] { names_of(lora({"q_proj"}, {"lm_heat"}), model); }), "Did you mean 'lm_head'");
  EXPECT_SAYS(user_error([&] { names_of(lora({"q_proj"}, {"mlp"}), model); }), "has modules in it");
  // LFM2's conv holds a convolution of the same name, and two linears: PEFT trains all of them.
  const model::ModelConfig lfm2 = model::parse_model_config(tiny_config("lfm2"), "test");
  EXPECT_SAYS(user_error([&] { names_of(lora({"q_proj"}, {"conv"}), lfm2); }), "has modules in it");
  EXPECT_EQ(names_of(lora({"in_proj"}, {"conv.conv"}), lfm2),
            (std::vector<std::string>{"model.layers.0.conv.conv.weight model.layers.0.conv.conv.weight",
                                      "model.layers.0.conv.conv.bias model.layers.0.conv.conv.bias"}));
  EXPECT_EQ(
      names_of(lora({"q_proj"}, {"0.mlp.down_proj"}), model),
      (std::vector<std::string>{"model.layers.0.mlp.down_proj.weight model.layers.0.mlp.down_proj.weight"}));
  EXPECT_SAYS(user_error([&] { names_of(lora({"q_proj", "lm_head"}, {"head"}), model); }),
              "which has a LoRA too");
  // PEFT keeps LoRA off a module that is trained in full.
  EXPECT_EQ(select_targets(lora({"q_proj", "lm_head"}, {"lm_head"}), model, true).size(), 2U);
}

TEST(WholeModules, RoutersAndExpertsAreRefused) {
  const auto refusal = [](const char* type, const char* entry) {
    const model::ModelConfig model = model::parse_model_config(tiny_config(type), "test");
    return user_error([&] { names_of(lora({"q_proj"}, {entry}), model); });
  };
  EXPECT_SAYS(refusal("qwen3_moe", "experts"), "model.layers.0.mlp.experts, a layer's experts");
  EXPECT_SAYS(refusal("qwen3_moe", "1.mlp.experts"),
              "mlp.experts.gate_up_proj and down_proj in lora_target_parameters");
  EXPECT_SAYS(refusal("qwen3_moe", "mlp.gate"), "model.layers.0.mlp.gate, a router");
  EXPECT_SAYS(refusal("mixtral", "gate"), "name mlp.gate.weight in lora_target_parameters");
  EXPECT_SAYS(refusal("granitemoe", "router"),
              "name block_sparse_moe.router.weight in lora_target_parameters");
  EXPECT_SAYS(refusal("granitemoe", "block_sparse_moe"), "has modules in it");
  // names of the hub's files, which PEFT does not see
  EXPECT_SAYS(refusal("qwen3_moe", "gate_proj"), "matches no module");
  EXPECT_SAYS(refusal("mixtral", "experts.0.w1"), "matches no module");
  EXPECT_SAYS(refusal("granitemoe", "router.layer"), "matches no module");
  // a dense layer has linears of these names
  base::Json json = tiny_config("qwen3_moe");
  json["mlp_only_layers"] = {0};
  const model::ModelConfig some = model::parse_model_config(json, "test");
  EXPECT_EQ(
      names_of(lora({"q_proj"}, {"gate_proj"}), some),
      (std::vector<std::string>{"model.layers.0.mlp.gate_proj.weight model.layers.0.mlp.gate_proj.weight"}));
  EXPECT_EQ(names_of(lora({"q_proj"}, {"v_proj"}), some).size(), 2U);
}

struct Case {
  LoraConfig config;
  bool unties = false;
  bool fused = true;
};

std::vector<Case> cases() {
  LoraConfig dora = lora({"v_proj", "lm_head"});
  dora.dora = true;
  return {{lora({"q_proj"}, {"lm_head"}), true},
          {lora({"q_proj"}, {"embed_tokens", "norm"}), true},
          {lora({"q_proj", "lm_head", "embed_tokens"}), true, false},
          {lora({"q_proj", "embed_tokens"}, {"lm_head"}), true, false},
          {dora, true, false},
          {lora({"q_proj"}, {"v_proj", "0.mlp.up_proj"}), false},
          {lora({"q_proj"}, {"norm"}, TrainedBias::kAll), false},
          {lora({"k_proj", "o_proj"}, {}, TrainedBias::kLoraOnly), false}};
}

TEST(WholeModules, BeginAsTheBaseAndComeBackFromFiles) {
  for (const bool tied : {true, false}) {
    for (const Case& one : cases()) {
      Setting s(tied, "qwen2"), fresh(tied, "qwen2");
      const at::Tensor before = s.logits();
      const Adapter adapter = Adapter::attach(*s.model, one.config, 1, s.source.get());
      EXPECT_LT(largest_difference(s.logits(), before), 1e-5);
      EXPECT_FALSE(s.model->trains_only_linears());
      EXPECT_EQ(fused_trains(one.config, s.model->config(), true), one.fused);
      EXPECT_EQ(s.model->fused_trains(), one.fused);
      move(adapter);
      const at::Tensor after = s.logits();
      EXPECT_GT(largest_difference(after, before), 1e-3);
      EXPECT_TRUE(s.logits({.adapters_on = false}).equal(before));
      adapter.save(s.adapter());
      const Adapter back = Adapter::load(*fresh.model, s.adapter());
      EXPECT_TRUE(back.flat().equal(adapter.flat()));
      EXPECT_TRUE(fresh.logits().equal(after));
      EXPECT_EQ(back.config().modules_to_save, one.config.modules_to_save);
      EXPECT_EQ(back.config().bias, one.config.bias);
      // The next adapter leaves nothing of it.
      const Adapter next = Adapter::attach(*s.model, lora({"q_proj", "v_proj"}), 1);
      EXPECT_TRUE(s.model->trains_only_linears());
      EXPECT_LT(largest_difference(s.logits(), before), 1e-5);
    }
  }
}

TEST(WholeModules, EveryTensorGetsItsGradient) {
  for (const Case& one : cases()) {
    Setting s(true, "qwen2");
    const Adapter adapter = Adapter::attach(*s.model, one.config, 1);
    move(adapter);
    const at::Tensor hidden = s.model->hidden(make_batch({{5, 9, 11, 9, 30}}), {});
    s.model->autograd_logits(hidden).pow(2).mean().backward();
    for (const TrainableTensor& tensor : adapter.tensors())
      EXPECT_GT(tensor.value.grad().abs().max().item<double>(), 0) << tensor.name;
  }
}

// PEFT hands padding_idx on to the lookup of lora_embedding_A.
TEST(WholeModules, LoraOnTheEmbeddingLearnsNothingOfPadding) {
  for (const std::int64_t pad : {0, 9}) {
    Setting s(false, "llama", pad);
    const Adapter adapter = Adapter::attach(*s.model, lora({"embed_tokens"}), 1);
    move(adapter);
    const at::Tensor hidden = s.model->hidden(make_batch({{5, 9, 11, 9, 30}}), {});
    s.model->autograd_logits(hidden).pow(2).mean().backward();
    const at::Tensor gradient = adapter.tensors().front().value.grad();  // [r, V]
    EXPECT_EQ(gradient.select(1, 9).abs().max().item<double>() > 0, pad != 9);
    EXPECT_GT(gradient.select(1, 11).abs().max().item<double>(), 0);
  }
}

// A trained head that was tied would be lost in a model whose config says that it is (PEFT#2777, PEFT#2864).
TEST(WholeModules, AreInTheMergedModelAndItsGguf) {
  for (const bool tied : {true, false}) {
    for (const Case& one : cases()) {
      Setting s(tied, "qwen2");
      const Adapter adapter = Adapter::attach(*s.model, one.config, 1);
      move(adapter);
      adapter.save(s.adapter());
      EXPECT_EQ(unties_head(s.model->config(), {s.adapter()}), tied && one.unties);
      const fs::path merged = s.folder.path() / "merged", gguf = s.folder.path() / "merged.gguf";
      merge_to_folder(s.base(), {s.adapter()}, merged);
      const auto source = open_to_merge(s.base(), {s.adapter()});
      model::write_gguf(*source, gguf, model::GgufWeights::kF32, merged_weights(*source, {s.adapter()}));
      for (const fs::path& written : {merged, gguf}) {
        const auto read = model::open_weights(written);
        EXPECT_EQ(read->has("lm_head.weight"), !tied || one.unties);
        EXPECT_EQ(read->config().tie_word_embeddings, tied && !one.unties);
        EXPECT_LT(largest_difference(Setting::logits_of(model::CausalLm(*read, {})), s.logits()), 1e-3);
      }
    }
  }
}

TEST(WholeModules, AreSwitchedWithTheirAdapter) {
  for (const Case& one : cases()) {
    Setting s(true, "qwen2");
    const at::Tensor before = s.logits();
    at::Tensor after;
    {
      const Adapter adapter = Adapter::attach(*s.model, one.config, 1);
      move(adapter);
      after = s.logits();
      adapter.save(s.adapter());
      AdapterSet(*s.model).deactivate();
    }
    AdapterSet set(*s.model);
    set.load("one", s.adapter());
    EXPECT_TRUE(s.logits().equal(before));
    set.activate("one");
    EXPECT_TRUE(s.logits().equal(after));
    set.deactivate();
    EXPECT_TRUE(s.logits().equal(before));
  }
}

TEST(WholeModules, StartFromTheStoredDigits) {
  TempFolder folder;
  Json config = tiny_config("llama");
  write_model(folder.path(), config);
  const auto source = model::open_weights(folder.path());
  model::CausalLm model(*source, {.linear = at::kBFloat16, .residual = at::kFloat});
  const Adapter adapter = Adapter::attach(model, lora({"q_proj"}, {"lm_head"}), 1, source.get());
  EXPECT_TRUE(adapter.tensors().back().value.detach().equal(source->read("lm_head.weight", at::kFloat)));
  EXPECT_EQ(model.autograd_logits(model.hidden(make_batch({{5, 9}}), {})).scalar_type(), at::kFloat);
}

TEST(WholeModules, RefuseWhatCannotBeTrainedTogether) {
  Setting s(true);
  const auto error = [&](LoraConfig config) {
    return user_error([&] { Adapter::attach(*s.model, config, 1); });
  };
  LoraConfig rows = lora({"q_proj"}, {"embed_tokens"});
  rows.token_indices = {3};
  EXPECT_SAYS(error(rows), "trainable_token_indices");
  rows.modules_to_save = {"lm_head"};
  EXPECT_SAYS(error(rows), "a tied head");
  LoraConfig dora = lora({"q_proj", "embed_tokens"});
  dora.dora = true;
  EXPECT_SAYS(error(dora), "DoRA on linears");
  LoraConfig pissa = lora({"q_proj", "lm_head"});
  pissa.init = LoraInit::kPissa;
  EXPECT_SAYS(error(pissa), "pissa on linears of the layers");
}

TEST(WholeModules, AreNotAddedToOtherAdapters) {
  Setting s(true);
  for (const LoraConfig& config : {lora({"q_proj"}, {"lm_head"}), lora({"q_proj", "lm_head"})}) {
    Adapter::attach(*s.model, config, 1).save(s.adapter());
    EXPECT_SAYS(user_error([&] { attach_frozen(*s.model, {s.adapter().string()}); }), "base_adapters");
  }
  Adapter::attach(*s.model, lora({"q_proj"}, {"norm"}), 1).save(s.adapter());
  const StoredAdapter stored = read_adapter(s.adapter(), s.model->config());
  EXPECT_SAYS(user_error([&] {
                combine({stored, stored}, {"a", "b"}, {1, 1}, {.how = Combination::kCat}, s.model->config());
              }),
              "trained in full");
  EXPECT_SAYS(user_error([&] { merged_weights(*s.source, {s.adapter(), s.adapter()}); }), "trained in full");
}

TEST(WholeModules, LoraOnTheHeadIsCombined) {
  Setting s(false), fresh(false);
  const Adapter adapter = Adapter::attach(*s.model, lora({"q_proj", "lm_head", "embed_tokens"}), 1);
  move(adapter);
  adapter.save(s.adapter());
  const StoredAdapter one = read_adapter(s.adapter(), s.model->config());
  const StoredAdapter both =
      combine({one, one}, {"a", "b"}, {0.25, 0.75}, {.how = Combination::kCat}, s.model->config());
  write_adapter(s.adapter(), both.config, tensors_of(both));
  const Adapter back = Adapter::load(*fresh.model, s.adapter());
  EXPECT_LT(largest_difference(fresh.logits(), s.logits()), 1e-4);
}

// PEFT writes the base's matrix beside a LoRA on the head, and loads it.
TEST(WholeModules, PeftsCopyOfTheBaseHasToBeTheBase) {
  Setting s(false);
  const Adapter adapter = Adapter::attach(*s.model, lora({"q_proj", "lm_head"}), 1);
  move(adapter);
  std::map<std::string, at::Tensor> tensors;
  for (const TrainableTensor& tensor : adapter.tensors()) tensors[tensor.name] = tensor.value.detach();
  fs::create_directories(s.adapter());
  at::Tensor& copy = tensors["base_model.model.lm_head.base_layer.weight"];
  copy = s.source->read("lm_head.weight", at::kFloat);
  write_adapter(s.adapter(), adapter.config(), tensors);
  Setting same(false);
  Adapter::load(*same.model, s.adapter());
  EXPECT_LT(largest_difference(same.logits(), s.logits()), 1e-5);
  copy = copy + at::eq(at::arange(48), 7).unsqueeze(1).to(at::kFloat);
  write_adapter(s.adapter(), adapter.config(), tensors);
  EXPECT_SAYS(user_error([&] { Adapter::load(*same.model, s.adapter()); }), "1 row that differs");
}

TEST(WholeModules, OnlyLoraFitsLlamaCppsAdapters) {
  Setting tied(true), apart(false);
  const auto write = [](Setting& s, const LoraConfig& config) {
    const Adapter adapter = Adapter::attach(*s.model, config, 1);
    move(adapter);
    adapter.save(s.adapter());
    fs::remove(s.folder.path() / "a.gguf");
    write_gguf_adapter(read_adapter(s.adapter(), s.model->config()), s.model->config(), s.adapter(),
                       s.folder.path() / "a.gguf", base::GgmlType::kF32);
  };
  EXPECT_SAYS(user_error([&] { write(apart, lora({"q_proj"}, {"norm"})); }), "trained in full");
  EXPECT_SAYS(user_error([&] { write(tied, lora({"q_proj", "lm_head"})); }), "in which they are one");
  LoraConfig config = lora({"q_proj", "lm_head", "embed_tokens"});
  config.alpha = 8;
  config.rank_pattern = {{"lm_head", 2}};
  config.alpha_pattern = {{"embed_tokens", 2}};
  write(apart, config);
  const base::GgufFile file = base::GgufFile::open(apart.folder.path() / "a.gguf");
  const auto read = [&](const std::string& name) {
    const base::GgufTensor* tensor = file.find(name);
    EXPECT_NE(tensor, nullptr) << name;
    at::Tensor out = at::empty(tensor->shape);
    base::dequantize(*tensor, {out.mutable_data_ptr<float>(), static_cast<std::size_t>(out.numel())});
    return out;
  };
  const double alpha = file.require_float("adapter.lora.alpha");
  const StoredAdapter stored = read_adapter(apart.adapter(), apart.model->config());
  for (const StoredLora& module : stored.modules) {
    const bool head = module.module == "lm_head";
    if (!head && !module.transposed) continue;
    const std::string name = head ? "output.weight" : "token_embd.weight";
    const at::Tensor a = read(name + ".lora_a"), b = read(name + ".lora_b");
    // llama.cpp: rows of token_embd's A are looked up
    const at::Tensor product = (head ? b.mm(a) : a.mm(b.t())) * (alpha / static_cast<double>(b.size(1)));
    const at::Tensor expected = module.b.mm(module.a) * module.scale;
    EXPECT_LT(largest_difference(product, head ? expected : expected.t()), 1e-5) << name;
  }
}

TEST(WholeModules, ReadOnlyWhatTheyMean) {
  const auto read = [](Json json) {
    return user_error([&] {
      json["peft_type"] = "LORA";
      json["r"] = 2;
      config_from_json(json, "f");
    });
  };
  EXPECT_EQ(read({{"modules_to_save", {"lm_head", "norm"}}}), "");
  EXPECT_SAYS(read({{"modules_to_save", {1}}}), "f: modules_to_save");
  EXPECT_SAYS(read({{"modules_to_save", {""}}}), "f: modules_to_save");
  EXPECT_SAYS(read({{"task_type", "SEQ_CLS"}, {"modules_to_save", {"lm_head"}}}),
              "score with task_type SEQ_CLS");
  EXPECT_SAYS(read({{"modules_to_save", {"lm_head"}}, {"ensure_weight_tying", true}}), "ensure_weight_tying");
  EXPECT_EQ(read({{"modules_to_save", {"norm"}}, {"ensure_weight_tying", true}}), "");
}

}  // namespace whole_modules_test
}  // namespace hone::adapters
