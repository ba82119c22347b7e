#include "model/layers/moe.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/causal_lm.h"
#include "model/files/export.h"
#include "model/files/gguf_write.h"
#include "model/files/weight_source.h"
#include "model/fused_pass.h"
#include "model/tiny_model.h"

namespace hone::model {
namespace moe_test {

using namespace hone::test_tools;
using base::Json;

ModelConfig parse(const char* type, const std::function<void(Json&)>& change = {}) {
  Json json = tiny_config(type);
  if (change) change(json);
  return parse_model_config(json, "test");
}

at::Tensor logits_of(const fs::path& folder) {
  const CausalLm model(*open_weights(folder), {});
  const at::NoGradGuard no_grad;
  return model.logits(model.hidden(make_batch({{1, 5, 9, 30, 30, 7, 44}}), {}));
}

TEST(Experts, ConfigsSayWhichLayersHaveThem) {
  const ModelConfig all = parse("qwen3_moe"),
                    some = parse("qwen3_moe", [](Json& j) {
                      j.update(
                          {{"num_hidden_layers", 6}, {"decoder_sparse_step", 2}, {"mlp_only_layers", {3}}});
                    });
  EXPECT_TRUE(all.has_experts(0) && all.has_experts(1));
  std::vector<bool> sparse;
  for (std::int64_t i = 0; i < 6; ++i) sparse.push_back(some.has_experts(i));
  EXPECT_EQ(sparse, (std::vector<bool>{false, true, false, false, false, true}));
  EXPECT_EQ(all.experts.count, 5);
  EXPECT_EQ(all.experts.width, 24);
  EXPECT_TRUE(all.experts.renormalizes);
  // transformers 5 writes another name, and its class has defaults
  const ModelConfig renamed = parse("qwen3_moe", [](Json& j) {
    j.erase("num_experts");
    j.erase("norm_topk_prob");
    j["num_local_experts"] = 7;
  });
  EXPECT_EQ(renamed.experts.count, 7);
  EXPECT_FALSE(renamed.experts.renormalizes);
  EXPECT_TRUE(parse("mixtral").experts.float_weights);
  EXPECT_FALSE(parse("granitemoe").experts.softmax_first);
  EXPECT_EQ(parse("granitemoe").experts.balance, 0.001);
  EXPECT_EQ(parse("olmoe").experts.balance, 0.01);
  EXPECT_SAYS(user_error([] { parse("mixtral", [](Json& j) { j["router_jitter_noise"] = 0.1; }); }),
              "router_jitter_noise 0");
  EXPECT_SAYS(user_error([] { parse("mixtral", [](Json& j) { j["num_experts_per_tok"] = 6; }); }),
              "num_experts_per_tok");
  EXPECT_SAYS(user_error([] { parse("qwen3_moe", [](Json& j) { j["mlp_only_layers"] = 1; }); }),
              "mlp_only_layers");
  EXPECT_SAYS(user_error([] { parse("qwen3_moe", [](Json& j) { j["moe_intermediate_size"] = 1 << 24; }); }),
              "");
}

// The names of a folder as transformers 5 holds the model: all experts of a layer in one tensor.
void write_stacked(const fs::path& folder, const Json& config) {
  fs::create_directories(folder);
  write_json(folder / "config.json", config);
  std::map<std::string, at::Tensor> tensors = random_tensors(config), out = tensors;
  for (const TensorSpec& spec : expected_tensors(parse_model_config(config, "test"))) {
    if (spec.others.empty()) continue;
    out.erase(spec.name);
    const OtherPlace& place = spec.others.back();
    if (place.expert < 0) {
      out[place.name] = tensors[spec.name];
      continue;
    }
    const bool halves = place.name.ends_with("gate_up_proj");
    at::Tensor& stack = out[place.name];
    if (!stack.defined()) stack = at::zeros({5, (halves ? 2 : 1) * spec.shape[0], spec.shape[1]});
    stack.select(0, place.expert).narrow(0, place.row, spec.shape[0]).copy_(tensors[spec.name]);
  }
  write_tensors(folder / "model.safetensors", out);
}

TEST(Experts, BothFormsOfNamesGiveTheSameModel) {
  for (const char* type : families_with_experts()) {
    const TempFolder temp;
    write_model(temp.path() / "apart", tiny_config(type));
    write_stacked(temp.path() / "stacked", tiny_config(type));
    EXPECT_TRUE(at::equal(logits_of(temp.path() / "apart"), logits_of(temp.path() / "stacked"))) << type;
    write_hf_folder(*open_weights(temp.path() / "stacked"), temp.path() / "again", {});
    EXPECT_TRUE(at::equal(logits_of(temp.path() / "apart"), logits_of(temp.path() / "again"))) << type;
  }
}

// As transformers saves them: Granite's experts in two tensors a layer, others' apart.
TEST(Experts, AreWrittenUnderTheNamesOfTheirFiles) {
  const TempFolder temp;
  write_model(temp.path() / "granite", tiny_config("granitemoe"));
  write_hf_folder(*open_weights(temp.path() / "granite"), temp.path() / "out", {});
  const auto file = base::SafetensorsFile::open(temp.path() / "out" / "model.safetensors");
  const base::StoredTensor* const stack = file.find("model.layers.1.block_sparse_moe.input_linear.weight");
  ASSERT_NE(stack, nullptr);
  EXPECT_EQ(stack->shape, (std::vector<std::int64_t>{5, 48, 32}));
  EXPECT_NE(file.find("model.layers.1.block_sparse_moe.output_linear.weight"), nullptr);
  EXPECT_NE(file.find("model.layers.1.block_sparse_moe.router.layer.weight"), nullptr);
  for (const base::StoredTensor& tensor : file.tensors())
    EXPECT_EQ(tensor.name.find(".experts."), std::string::npos) << tensor.name;
}

TEST(Experts, AGgufHasThemInEveryLayerAndOneKindOfWeights) {
  const TempFolder temp;
  Json config = tiny_config("qwen3_moe");
  config["norm_topk_prob"] = false;
  write_model(temp.path() / "plain", config);
  EXPECT_SAYS(user_error([&] {
                write_gguf(*open_weights(temp.path() / "plain"), temp.path() / "a.gguf", GgufWeights::kF32);
              }),
              "norm_topk_prob true");
  config.update({{"norm_topk_prob", true}, {"mlp_only_layers", {0}}});
  write_model(temp.path() / "dense", config);
  EXPECT_SAYS(user_error([&] {
                write_gguf(*open_weights(temp.path() / "dense"), temp.path() / "b.gguf", GgufWeights::kF32);
              }),
              "experts in every layer");
  const auto refusal = [&](const Json& change) {  // of an olmoe, whose weights llama.cpp leaves as they are
    Json olmoe = tiny_config("olmoe");
    olmoe["num_key_value_heads"] = 4;
    olmoe.update(change);
    const TempFolder folder;
    write_model(folder.path(), olmoe);
    return user_error(
        [&] { write_gguf(*open_weights(folder.path()), folder.path() / "c.gguf", GgufWeights::kF32); });
  };
  EXPECT_EQ(refusal(Json::object()), "");
  EXPECT_SAYS(refusal({{"norm_topk_prob", true}}), "norm_topk_prob false of an olmoe");
  EXPECT_SAYS(refusal({{"num_key_value_heads", 2}}), "num_key_value_heads 4 of an olmoe");
  EXPECT_SAYS(refusal({{"head_dim", 16}}), "heads as wide as hidden_size together");
  EXPECT_SAYS(refusal({{"attention_bias", true}}), "attention_bias false");
  EXPECT_SAYS(refusal({{"tie_word_embeddings", true}}), "tie_word_embeddings false");
}

// bitsandbytes quantizes linears; experts and routers are parameters.
TEST(Experts, StayAsTheyAreInFourBits) {
  const TempFolder temp;
  write_model(temp.path(), tiny_config("mixtral"));
  const CausalLm model(*open_weights(temp.path()), {}, Storage::kPlain,
                       ops::QuantScheme{.type = ops::QuantType::kNf4});
  for (const ops::Linear* linear : model.linears()) {
    const bool of_experts = linear->name.find("block_sparse_moe") != std::string::npos;
    EXPECT_EQ(linear->weight.is_quantized(), !of_experts) << linear->name;
  }
}

// The definition, token by token.
TEST(Experts, EachTokenIsTheWeightedSumOfItsExperts) {
  for (const char* type : families_with_experts()) {
    const TempFolder temp;
    write_model(temp.path(), tiny_config(type));
    const CausalLm model(*open_weights(temp.path()), {});
    const at::NoGradGuard no_grad;
    const SparseMlp& mlp = *model.layers()[0].experts;
    const at::Tensor x = at::randn({6, 32});
    RouterLoad load;
    const at::Tensor y = sparse_mlp(mlp, model.config(), x, {}, &load);
    at::Tensor counts = at::zeros({5}), scores = at::zeros({5});
    for (std::int64_t t = 0; t < 6; ++t) {
      const at::Tensor softmax = at::softmax(at::linear(x[t], mlp.router.weight.plain()), 0);
      const auto [best, chosen] = at::topk(softmax, 2);
      counts.index_add_(0, chosen, at::ones({2}));
      scores += softmax;
      // the quotient is the softmax of the chosen logits too
      const ExpertsRule& rule = model.config().experts;
      const at::Tensor weights = rule.softmax_first && !rule.renormalizes ? best : best / best.sum();
      at::Tensor expected = at::zeros({32});
      for (std::int64_t s = 0; s < 2; ++s) {
        const Expert& e = mlp.experts[static_cast<std::size_t>(chosen[s].item<std::int64_t>())];
        const at::Tensor gate = at::silu(at::linear(x[t], e.gate.weight.plain())),
                         up = at::linear(x[t], e.up.weight.plain());
        expected = expected + at::linear(gate * up, e.down.weight.plain()) * weights[s];
      }
      EXPECT_LT(largest_difference(y[t], expected), 1e-5) << type;
    }
    EXPECT_EQ(load.rows, 6);
    EXPECT_EQ(load.assigned.sum().item<double>(), 12);
    EXPECT_NEAR(load.loss().item<double>(), 5 * ((counts / 6) * (scores / 6)).sum().item<double>(), 1e-5);
  }
}

// A row's bits do not depend on the other rows, nor on how many experts have rows.
TEST(Experts, ARowAloneHasTheSameBits) {
  for (const char* type : families_with_experts()) {
    const TempFolder temp;
    write_model(temp.path(), wide_config(type));
    const CausalLm model(*open_weights(temp.path()), {at::kBFloat16, at::kBFloat16});
    const at::NoGradGuard no_grad;
    const SparseMlp& mlp = *model.layers()[1].experts;
    const at::Tensor x = at::randn({37, 96}).to(at::kBFloat16);
    const auto forward = [&](const at::Tensor& rows) {
      return fused_sparse_forward(mlp, model.config(), rows, {}, {}, nullptr, nullptr);
    };
    const at::Tensor all = forward(x);
    for (std::int64_t t = 0; t < x.size(0); t += 5)
      EXPECT_TRUE(at::equal(forward(x.narrow(0, t, 1)), all.narrow(0, t, 1))) << type;
  }
}

}  // namespace moe_test
}  // namespace hone::model
