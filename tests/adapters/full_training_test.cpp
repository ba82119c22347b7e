// Full fine-tuning: which tensors are trained, the model before and after a change, and its folder. Gradients:
// tests/train/fused_form_test.cpp; numbers beside TRL's: tests/parity/trl_full_test.cpp.
#include "adapters/full_training.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "adapters/lora.h"
#include "base/files/file.h"
#include "model/config/families.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace full_training_test {

using namespace hone::test_tools;
using base::Json;

struct Setting {
  explicit Setting(bool tied, const std::string& family = "qwen3", model::DtypePolicy dtypes = {},
                   model::Storage storage = model::Storage::kPlain) {
    Json config = tiny_config(family);
    config["tie_word_embeddings"] = tied;
    write_model(folder.path() / "base", config);
    source = model::open_weights(folder.path() / "base");
    model.emplace(*source, dtypes, storage);
  }
  fs::path saved() const {
    fs::create_directories(folder.path() / "saved");
    return folder.path() / "saved";
  }
  // The pass of a sampler, whose last row is that of the autograd form.
  at::Tensor logits(const ops::PassContext& pass = {}) const {
    const at::NoGradGuard no_grad;
    const at::Tensor hidden = model->hidden(make_batch({{5, 9, 11, 9, 30}}), pass);
    const at::Tensor out = model->autograd_logits(hidden, pass);
    EXPECT_LT(largest_difference(model->logits(hidden, pass), out), 1e-5);
    model::KvCache cache;
    std::vector<model::KvCache*> caches = {&cache};
    const at::Tensor last = model->logits(model->step({{5, 9, 11, 9, 30}}, caches, pass), pass);
    EXPECT_LT(largest_difference(last, out.narrow(0, 4, 1)), 1e-4);
    return out;
  }

  TempFolder folder;
  std::unique_ptr<model::WeightSource> source;
  std::optional<model::CausalLm> model;
};

LoraConfig full(FullTraining what = {}) {
  LoraConfig out;
  out.full = std::move(what);
  return out;
}

void move(const Adapter& adapter) {
  const at::NoGradGuard no_grad;
  adapter.flat().add_(at::sin(at::arange(adapter.flat().numel(), at::kFloat)), 0.1);
}

std::vector<std::string> names_of(const FullTraining& what, const model::ModelConfig& model) {
  std::vector<std::string> out;
  for (const WholeTensor& tensor : full_tensors(what, model)) out.push_back(tensor.name);
  return out;
}

TEST(FullTraining, TrainsAllTensorsOrThoseThatPatternsName) {
  const Setting tied(true), untied(false);
  const model::ModelConfig& config = tied.model->config();
  EXPECT_EQ(names_of({}, config).size(), model::expected_tensors(config).size());
  EXPECT_EQ(names_of({}, untied.model->config()).back(), "lm_head.weight");
  EXPECT_EQ(names_of({.unfrozen = {"^model.embed_tokens.weight$", "^lm_head.weight$",
                                   "model.layers.1.mlp.up_proj"}},
                     config),
            (std::vector<std::string>{"model.embed_tokens.weight", "model.layers.1.mlp.up_proj.weight"}))
      << "a tied head is the embedding";
  const std::vector<std::string> second = names_of({.layers = {1}}, config);
  EXPECT_EQ(second.size(), (model::expected_tensors(config).size() - 2) /
                               static_cast<std::size_t>(config.num_hidden_layers));
  for (const std::string& name : second) EXPECT_TRUE(name.starts_with("model.layers.1.")) << name;
  EXPECT_THROW(names_of({.layers = {config.num_hidden_layers}}, config), base::UserError);
  // re.match: the beginning, and a dot is any character
  EXPECT_EQ(names_of({.unfrozen = {"model.norm|lm_head"}}, untied.model->config()),
            (std::vector<std::string>{"model.norm.weight", "lm_head.weight"}));
  EXPECT_EQ(names_of({.unfrozen = {"model.embed", "model.norm"}, .freeze_embeddings = true}, config),
            (std::vector<std::string>{"model.norm.weight"}));
  EXPECT_SAYS(user_error([&] { names_of({.unfrozen = {"up_proj"}}, config); }),
              "matches the beginning of none");
  EXPECT_SAYS(user_error([&] { names_of({.unfrozen = {"model.embed"}, .freeze_embeddings = true}, config); }),
              "at least one tensor to train");
}

TEST(FullTraining, FrozenEmbeddingsAreThoseOfLayersToo) {
  const model::ModelConfig config = model::parse_model_config(tiny_config("gemma4_text"), "test");
  const auto of_embeddings = [](const std::vector<std::string>& names) {
    return std::count_if(names.begin(), names.end(), [](const std::string& name) {
      return name.find("embed_tokens") != std::string::npos;
    });
  };
  EXPECT_EQ(of_embeddings(names_of({}, config)), 2);
  EXPECT_EQ(of_embeddings(names_of({.freeze_embeddings = true}, config)), 0);
}

TEST(FullTraining, TheBaseIsTheReferenceWhereItIsKept) {
  for (const bool tied : {true, false}) {
    for (const bool keeps : {true, false}) {
      Setting s(tied);
      const at::Tensor before = s.logits();
      const Adapter trained = Adapter::attach_full(*s.model, full({.keeps_base = keeps}), *s.source);
      EXPECT_TRUE(s.logits().equal(before));
      EXPECT_EQ(trained.flat().numel(), s.model->parameter_count());
      EXPECT_TRUE(s.model->fused_trains());
      const at::Tensor one_row = s.model->mean_head_row({}, true);
      move(trained);
      const at::Tensor after = s.logits();
      EXPECT_GT(largest_difference(after, before), 1e-3);
      EXPECT_FALSE(s.model->mean_head_row({}, true).equal(one_row)) << "the mean is of the moved head";
      if (keeps) {
        EXPECT_TRUE(s.logits({.adapters_on = false}).equal(before));
      } else {
        EXPECT_LT(s.model->parameter_bytes(), s.model->parameter_count()) << "only norms are left";
      }
    }
  }
}

TEST(FullTraining, SavesAModelsFolder) {
  for (const bool tied : {true, false}) {
    for (const auto& patterns : {std::vector<std::string>{}, std::vector<std::string>{"model.layers.1"}}) {
      const LoraConfig config = full({.unfrozen = patterns, .shard_bytes = 8'000});
      Setting s(tied);
      const Adapter trained = Adapter::attach_full(*s.model, config, *s.source);
      move(trained);
      trained.save(s.saved());
      EXPECT_TRUE(fs::exists(s.saved() / "model.safetensors.index.json"));
      const auto source = model::open_weights(s.saved());
      const model::CausalLm read(*source, {});
      EXPECT_EQ(source->stored_dtype("model.norm.weight"), at::kFloat);
      const at::NoGradGuard no_grad;
      const at::Tensor hidden = read.hidden(make_batch({{5, 9, 11, 9, 30}}), {});
      EXPECT_TRUE(read.autograd_logits(hidden).equal(s.logits()));
      // A checkpoint is read back bit for bit.
      Setting again(tied);
      const Adapter resumed = Adapter::resume_full(*again.model, config, *again.source, *source);
      EXPECT_TRUE(resumed.flat().equal(trained.flat()));
      EXPECT_TRUE(again.logits().equal(s.logits()));
    }
  }
}

TEST(FullTraining, TheResultMayBeInAnotherDtype) {
  Setting s(true);
  const Adapter trained = Adapter::attach_full(*s.model, full(), *s.source);
  move(trained);
  trained.save(s.saved(), at::kBFloat16);
  const auto source = model::open_weights(s.saved());
  EXPECT_EQ(source->stored_dtype("model.norm.weight"), at::kBFloat16);
  const Json config = base::parse_json(base::read_text(s.saved() / "config.json"), "config.json");
  EXPECT_EQ(config.value("torch_dtype", config.value("dtype", Json())), "bfloat16");
  const at::Tensor norm = trained.tensors().back().value;
  EXPECT_TRUE(
      source->read(trained.tensors().back().name, at::kFloat).equal(norm.to(at::kBFloat16).to(at::kFloat)));
}

TEST(FullTraining, ProductsReadACopyThatFollowsTheMasters) {
  Setting s(true, "llama", {at::kBFloat16, at::kFloat}, model::Storage::kPacked);
  const Adapter trained = Adapter::attach_full(*s.model, full(), *s.source);
  for (int i = 0; i < 3; ++i) {
    move(trained);
    trained.save(s.saved());
    const auto source = model::open_weights(s.saved());
    const model::CausalLm read(*source, {at::kBFloat16, at::kFloat}, model::Storage::kPacked);
    std::vector<at::Tensor> logits;
    for (const model::CausalLm* lm : {&std::as_const(*s.model), &read}) {
      model::KvCache cache;
      std::vector<model::KvCache*> caches = {&cache};
      logits.push_back(lm->logits(lm->step({{5, 9, 11, 9, 30}}, caches, {})));
    }
    EXPECT_TRUE(logits[0].equal(logits[1]));
  }
}

TEST(FullTraining, RefusesAQuantizedModel) {
  Setting s(true);
  model::CausalLm quantized(*s.source, {}, model::Storage::kPlain,
                            ops::QuantScheme{.type = ops::QuantType::kNf4});
  EXPECT_SAYS(user_error([&] { Adapter::attach_full(quantized, full(), *s.source); }), "4-bit");
}

}  // namespace full_training_test
}  // namespace hone::adapters
