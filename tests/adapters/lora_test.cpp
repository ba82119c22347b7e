#include "adapters/lora.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "adapters/merge.h"
#include "adapters/peft_files.h"
#include "base/error.h"
#include "model/files/export.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace lora_test {

using namespace hone::test_tools;
using base::Json;

struct Setting {
  TempFolder folder;
  std::unique_ptr<model::CausalLm> model;

  explicit Setting(model::DtypePolicy dtypes = {}) {
    write_model(folder.path() / "base", tiny_config("llama"));
    model = std::make_unique<model::CausalLm>(*model::open_weights(folder.path() / "base"), dtypes);
  }
  at::Tensor logits(const ops::PassContext& pass = {}) const {
    return model->autograd_logits(model->hidden(make_batch({{3, 4, 5, 6}, {7, 8}}), pass));
  }
};

LoraConfig all_linear(LoraInit init = LoraInit::kFalse) {
  LoraConfig c;
  c.r = 4;
  c.alpha = 8;
  c.target_modules = {"all-linear"};
  c.target_is_regex = true;
  c.init = init;
  return c;
}

TEST(LoraConfig, ScalesByTheRankOrItsRoot) {
  LoraConfig c = all_linear();
  EXPECT_EQ(c.scale(), 2.0);
  c.rslora = true;
  EXPECT_EQ(c.scale(), 4.0);
}

TEST(Adapter, BeginsWithTheBaseModelsLogits) {
  for (const auto init : {LoraInit::kTrue, LoraInit::kGaussian}) {
    Setting s;
    const at::Tensor before = s.logits();
    const Adapter adapter = Adapter::attach(*s.model, all_linear(init), 1);
    EXPECT_LT(largest_difference(s.logits(), before), 1e-6);  // B is 0
    EXPECT_EQ(adapter.tensors().size(), 28u);
  }
  Setting s;
  const at::Tensor before = s.logits();
  const Adapter adapter = Adapter::attach(*s.model, all_linear(), 1);
  EXPECT_GT(largest_difference(s.logits(), before), 1e-3);
  ops::PassContext off;
  off.adapters_on = false;
  EXPECT_TRUE(at::equal(s.logits(off), before));
}

TEST(Adapter, DrawsTheDistributionsOfPeft) {
  Setting s;
  LoraConfig c = all_linear(LoraInit::kFalse);
  c.r = 16;
  const Adapter both = Adapter::attach(*s.model, c, 1);
  const at::Tensor a = both.tensors()[0].value, b = both.tensors()[1].value;  // q_proj: in 32, r 16
  EXPECT_LE(a.abs().max().item<double>(), 1 / std::sqrt(32.0));
  EXPECT_GT(a.abs().max().item<double>(), 0.95 / std::sqrt(32.0));
  EXPECT_NEAR(a.mean().item<double>(), 0, 0.02);
  EXPECT_LE(b.abs().max().item<double>(), 1 / std::sqrt(16.0));
  EXPECT_GT(b.abs().max().item<double>(), 0.95 / std::sqrt(16.0));
  c.init = LoraInit::kGaussian;
  const Adapter normal = Adapter::attach(*s.model, c, 1);
  EXPECT_NEAR(normal.tensors()[0].value.std().item<double>(), 1.0 / 16, 0.01);
  EXPECT_EQ(normal.tensors()[1].value.abs().max().item<double>(), 0);
}

TEST(Adapter, DrawsByModuleNameAndSeed) {
  Setting s;
  const auto values = [&](std::vector<std::string> targets, std::uint64_t seed) {
    LoraConfig c = all_linear();
    c.target_modules = std::move(targets);
    c.target_is_regex = false;
    const Adapter adapter = Adapter::attach(*s.model, c, seed);
    return adapter.tensors().back().value.detach().clone();
  };
  const at::Tensor one = values({"1.mlp.down_proj"}, 5);
  EXPECT_TRUE(at::equal(one, values({"q_proj", "1.mlp.down_proj"}, 5)));
  EXPECT_FALSE(at::equal(one, values({"1.mlp.down_proj"}, 6)));
  EXPECT_FALSE(at::equal(one, values({"0.mlp.down_proj"}, 5)));
}

TEST(Adapter, GathersGradientsInPlaceInOneBuffer) {
  Setting s;
  Adapter adapter = Adapter::attach(*s.model, all_linear(), 1);
  const auto* buffer = static_cast<const float*>(adapter.flat_gradient().const_data_ptr());
  s.logits().pow(2).mean().backward();
  const at::Tensor once = adapter.flat_gradient().clone();
  std::int64_t offset = 0;
  for (const TrainableTensor& t : adapter.tensors()) {
    EXPECT_EQ(t.value.grad().const_data_ptr(), buffer + offset) << t.name;
    EXPECT_EQ(t.value.const_data_ptr(), static_cast<const float*>(adapter.flat().const_data_ptr()) + offset);
    EXPECT_GT(t.value.grad().abs().max().item<double>(), 0) << t.name;
    offset += t.value.numel();
  }
  EXPECT_EQ(offset, adapter.flat().numel());
  s.logits().pow(2).mean().backward();  // adds, still in place
  EXPECT_TRUE(at::allclose(adapter.flat_gradient(), 2 * once, 1e-5, 1e-8));
  EXPECT_EQ(adapter.tensors()[0].value.grad().const_data_ptr(), buffer);
  adapter.zero_gradient();
  EXPECT_EQ(adapter.tensors()[3].value.grad().abs().max().item<double>(), 0);
}

TEST(Adapter, FollowsAnUpdateOfTheFlatBuffer) {
  Setting s;
  const at::Tensor before = s.logits();
  Adapter adapter = Adapter::attach(*s.model, all_linear(), 1);
  s.logits().pow(2).mean().backward();
  {
    const at::NoGradGuard no_grad;
    adapter.flat().zero_();
  }
  EXPECT_LT(largest_difference(s.logits(), before), 1e-6);
  s.logits().pow(2).mean().backward();
}

TEST(Adapter, HasTheGradientOfFiniteDifferences) {
  Setting s;
  Adapter adapter = Adapter::attach(*s.model, all_linear(), 1);
  const auto loss = [&] { return s.logits().to(at::kDouble).pow(2).mean(); };
  loss().backward();
  const at::NoGradGuard no_grad;
  // Along the gradient itself: |g|^2 per unit step.
  const at::Tensor g = adapter.flat_gradient().clone();
  const double square = g.pow(2).sum().item<double>(), h = 1e-3 / std::sqrt(square);
  adapter.flat().add_(g, h);
  const double above = loss().item<double>();
  adapter.flat().sub_(g, 2 * h);
  const double below = loss().item<double>();
  EXPECT_NEAR((above - below) / (2 * h) / square, 1.0, 5e-3);
}

TEST(Adapter, DropsInTrainingOnlyAndTheSamePackedOrAlone) {
  Setting s;
  LoraConfig c = all_linear();
  c.dropout = 0.3;
  Adapter adapter = Adapter::attach(*s.model, c, 1);
  const auto run = [&](const data::Batch& batch) {
    std::vector<std::int64_t> rows;
    for (const data::Segment& seg : batch.segments) {
      for (std::int64_t t = seg.begin; t < seg.end; ++t) rows.push_back(seg.row);
    }
    ops::PassContext pass;
    pass.training = true;
    pass.token_row = &rows;
    pass.token_position = &batch.positions;
    return s.model->hidden(batch, pass).detach();
  };
  const at::Tensor packed = run(make_batch({{3, 4, 5}, {6, 7, 8, 9}}, 20));
  EXPECT_LT(largest_difference(packed.slice(0, 3, 7), run(make_batch({{6, 7, 8, 9}}, 21))), 2e-5);
  const at::Tensor kept = s.model->hidden(make_batch({{3, 4, 5}, {6, 7, 8, 9}}), {}).detach();
  EXPECT_GT(largest_difference(packed, kept), 1e-3);
  adapter.set_dropout(0);
  EXPECT_TRUE(at::equal(run(make_batch({{3, 4, 5}, {6, 7, 8, 9}}, 20)), kept));
}

TEST(Adapter, LearnsInTheReducedModesWithFloatMasters) {
  for (const at::ScalarType residual : {at::kFloat, at::kBFloat16}) {
    Setting s({at::kBFloat16, residual});
    Adapter adapter = Adapter::attach(*s.model, all_linear(), 1);
    s.logits().pow(2).mean().backward();
    EXPECT_EQ(adapter.flat_gradient().scalar_type(), at::kFloat);
    for (const TrainableTensor& t : adapter.tensors()) {
      EXPECT_GT(t.value.grad().abs().max().item<double>(), 0) << t.name;
    }
  }
}

TEST(Adapter, SavesWhatItLoads) {
  Setting s;
  LoraConfig c = all_linear();
  c.dropout = 0.05;
  c.rslora = true;
  c.base_model_name_or_path = "some/base";
  const Adapter adapter = Adapter::attach(*s.model, c, 3);
  const at::Tensor expected = s.logits().detach();
  adapter.save(s.folder.path() / "adapter");

  const auto file = base::SafetensorsFile::open(s.folder.path() / "adapter" / "adapter_model.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.tensors().front().name, "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight");
  EXPECT_EQ(file.tensors().size(), 28u);

  Setting fresh;
  const Adapter back = Adapter::load(*fresh.model, s.folder.path() / "adapter");
  EXPECT_TRUE(at::equal(back.flat(), adapter.flat()));
  EXPECT_TRUE(at::equal(fresh.logits().detach(), expected));
  EXPECT_EQ(back.config().dropout, 0.05);
  EXPECT_EQ(back.config().base_model_name_or_path, "some/base");
  EXPECT_TRUE(back.config().rslora);
  back.save(s.folder.path() / "again");
  EXPECT_EQ(base::read_text(s.folder.path() / "again" / "adapter_model.safetensors"),
            base::read_text(s.folder.path() / "adapter" / "adapter_model.safetensors"));
}

TEST(Adapter, RefusesARankOrDropoutThatMeansNothing) {
  Setting s;
  LoraConfig c = all_linear();
  c.r = 0;
  EXPECT_SAYS(user_error([&] { Adapter::attach(*s.model, c, 1); }), "a positive rank");
  c.r = 2;
  c.dropout = 1;
  EXPECT_SAYS(user_error([&] { Adapter::attach(*s.model, c, 1); }), "lora_dropout");
}

TEST(PeftConfig, HasEveryKeyInAlphabeticalOrder) {
  const Json json = config_to_json(all_linear());
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_EQ(keys.size(), 41u);
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
  EXPECT_EQ(json["lora_alpha"].dump(), "8");
  EXPECT_EQ(json["peft_version"], "0.21.2");
  EXPECT_EQ(json["inference_mode"], true);
  EXPECT_EQ(json["task_type"], "CAUSAL_LM");
  EXPECT_EQ(json["init_lora_weights"], false);
  EXPECT_EQ(json["target_modules"], "all-linear");
}

TEST(PeftConfig, ShortensTwentyNamesOrMore) {
  model::ModelConfig model = Setting().model->config();
  model.num_hidden_layers = 2;
  EXPECT_EQ(with_recorded_targets(all_linear(), model).target_modules.size(), 14u);
  model.num_hidden_layers = 3;
  LoraConfig excluding = all_linear();
  excluding.exclude_modules = {"k_proj", "v_proj"};
  const std::vector<std::string> all = {"down_proj", "gate_proj", "k_proj", "o_proj",
                                        "q_proj",    "up_proj",   "v_proj"};
  EXPECT_EQ(with_recorded_targets(excluding, model).target_modules, all);
}

TEST(PeftConfig, ReadsAnOldOneWithFewKeys) {
  const LoraConfig c = config_from_json({{"peft_type", "LORA"},
                                         {"r", 2},
                                         {"lora_alpha", 3},
                                         {"target_modules", "all-linear"},
                                         {"bias", "none"}},
                                        "f");
  EXPECT_EQ(c.r, 2);
  EXPECT_EQ(c.scale(), 1.5);
  EXPECT_TRUE(is_all_linear(c));
}

TEST(PeftConfig, RefusesWhatWouldChangeTheResult) {
  struct Case {
    std::string key;
    Json value;
    const char *cause, *fix;
  };
  const std::vector<Case> cases = {
      {"fan_in_fan_out", true, "weights stored transposed (Conv1D)", "train it without fan_in_fan_out"},
      {"lora_bias", true, "B has a bias of its own, which hone does not add", "train it without lora_bias"},
      {"layer_replication",
       {{0, 1}},
       "repeats layers that the base has once",
       "train it without layer_replication"},
      {"alora_invocation_tokens",
       {1},
       "works only behind its invocation tokens",
       "without alora_invocation_tokens"},
      {"use_qalora", true, "QA-LoRA averages groups of inputs", "train it without use_qalora"},
      {"a_new_option", 3, "the result might differ", "remove the key where it changes nothing"}};
  for (const Case& one : cases) {
    const Json json = {{"peft_type", "LORA"}, {"r", 2}, {one.key, one.value}};
    const std::string message = user_error([&] { config_from_json(json, "f"); });
    EXPECT_SAYS(message, "f: " + one.key);
    EXPECT_SAYS(message, "found:  " + base::dump_json(one.value));
    EXPECT_SAYS(message, one.cause);
    EXPECT_SAYS(message, one.fix);
    EXPECT_SAYS(message, "merge the adapter with PEFT");
  }
  EXPECT_SAYS(user_error([] { config_from_json({{"peft_type", "IA3"}}, "f"); }), "'IA3'");
  EXPECT_SAYS(user_error([] { config_from_json({{"peft_type", "LORA"}, {"task_type", "SEQ_CLS"}}, "f"); }),
              "SEQ_CLS");
  EXPECT_SAYS(
      user_error([] { config_from_json({{"peft_type", "LORA"}, {"init_lora_weights", "pissa"}}, "f"); }),
      "changes the base model's weights");
  EXPECT_SAYS(user_error([] { config_from_json({{"peft_type", "LORA"}, {"r", 0}}, "f"); }),
              "a positive integer");
  EXPECT_EQ(user_error([] { config_from_json({{"peft_type", "LORA"}, {"a_new_option", nullptr}}, "f"); }),
            "");
}

std::string load_error(const std::function<void(Json&, std::map<std::string, at::Tensor>&)>& spoil) {
  Setting s;
  LoraConfig c = all_linear();
  c.target_modules = {"q_proj"};
  c.target_is_regex = false;
  const Adapter adapter = Adapter::attach(*s.model, c, 1);
  std::map<std::string, at::Tensor> tensors;
  for (const TrainableTensor& t : adapter.tensors()) tensors[t.name] = t.value.detach().clone();
  Json json = config_to_json(c);
  spoil(json, tensors);
  const fs::path folder = s.folder.path() / "adapter";
  fs::create_directories(folder);
  write_json(folder / "adapter_config.json", json);
  write_tensors(folder / "adapter_model.safetensors", tensors);
  return user_error([&] { Adapter::load(*s.model, folder); });
}

constexpr const char* kSomeA = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";

TEST(AdapterFile, ChecksEveryKeyAndShape) {
  EXPECT_EQ(load_error([](auto&, auto&) {}), "");
  EXPECT_SAYS(load_error([](auto&, auto& t) { t.erase(kSomeA); }), std::string("the tensor ") + kSomeA);
  const std::string shape = load_error([](auto& json, auto&) { json["r"] = 5; });
  EXPECT_SAYS(shape, "[5, 32]");
  EXPECT_SAYS(shape, "[4, 32]");
  const std::string extra =
      load_error([](auto&, auto& t) { t["base_model.model.lm_head.weight"] = at::zeros({48, 32}); });
  EXPECT_SAYS(extra, "base_model.model.lm_head.weight");
  EXPECT_SAYS(extra, "adapter_config.json has no lm_head in modules_to_save");
  EXPECT_SAYS(load_error([](auto&, auto& t) { t[kSomeA] = at::zeros({4, 32}, at::kInt); }), "I32");
}

TEST(AdapterFile, WidensHalfPrecision) {
  EXPECT_EQ(load_error([](auto&, auto& t) {
              for (auto& [name, value] : t) value = value.to(at::kBFloat16);
            }),
            "");
  EXPECT_EQ(load_error([](auto&, auto& t) { t[kSomeA] = t[kSomeA].to(at::kHalf); }), "");
}

TEST(AdapterFile, ReadsAnAdapterOfSomeLayers) {
  EXPECT_EQ(load_error([](auto& json, auto& t) {
              json["layers_to_transform"] = {1};
              t.erase(kSomeA);
              t.erase("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight");
            }),
            "");
}

TEST(AdapterFile, SaysWhatIsMissing) {
  Setting s;
  EXPECT_SAYS(user_error([&] { Adapter::load(*s.model, s.folder.path() / "base"); }), "adapter_config.json");
  write_json(s.folder.path() / "base" / "adapter_config.json", config_to_json(all_linear()));
  base::write_file_atomic(s.folder.path() / "base" / "adapter_model.bin", "x");
  EXPECT_SAYS(user_error([&] { Adapter::load(*s.model, s.folder.path() / "base"); }), "pickled");
}

TEST(Merge, GivesTheLogitsOfTheAdapterWithoutIt) {
  Setting s;
  const Adapter adapter = Adapter::attach(*s.model, all_linear(), 3);
  const at::Tensor expected = s.logits().detach();
  adapter.save(s.folder.path() / "adapter");
  const std::string before = base::read_text(s.folder.path() / "base" / "model.safetensors");
  const fs::path out = s.folder.path() / "merged";
  merge_to_folder(s.folder.path() / "base", {s.folder.path() / "adapter"}, out);
  const model::CausalLm merged(*model::open_weights(out), {});
  const at::Tensor logits = merged.logits(merged.hidden(make_batch({{3, 4, 5, 6}, {7, 8}}), {}));
  EXPECT_LT(largest_difference(logits, expected), 1e-4);
  EXPECT_EQ(base::read_text(s.folder.path() / "base" / "model.safetensors"), before);
  const std::string message =
      user_error([&] { merge_to_folder(s.folder.path() / "base", {s.folder.path() / "adapter"}, out); });
  EXPECT_SAYS(message, "a new or empty folder");
}

TEST(Merge, OntoWhatQuantizedNumbersStandForGivesTheModelThatWasTrained) {
  Setting s;
  const ops::QuantScheme scheme{ops::QuantType::kNf4, true};
  const fs::path base = s.folder.path() / "base", files = s.folder.path() / "adapter";
  s.model = std::make_unique<model::CausalLm>(*model::open_weights(base), model::DtypePolicy{},
                                              model::Storage::kPlain, scheme);
  LoraConfig config = all_linear();
  config.target_modules = {"q_proj"};  // the other linears are quantized too
  config.target_is_regex = false;
  Adapter::attach(*s.model, config, 3).save(files);
  const at::Tensor expected = s.logits().detach();
  const auto difference = [&](const fs::path& out) {
    const model::CausalLm merged(*model::open_weights(out), {});
    return largest_difference(merged.logits(merged.hidden(make_batch({{3, 4, 5, 6}, {7, 8}}), {})), expected);
  };
  merge_to_folder(base, {files}, s.folder.path() / "right", scheme);
  EXPECT_LT(difference(s.folder.path() / "right"), 1e-4);
  merge_to_folder(base, {files}, s.folder.path() / "wrong");
  EXPECT_GT(difference(s.folder.path() / "wrong"), 1e-2);
  // A base that is stored quantized says so itself.
  model::write_hf_folder(*model::open_weights(base), s.folder.path() / "codes", {.quantize = scheme});
  merge_to_folder(s.folder.path() / "codes", {files}, s.folder.path() / "stored");
  EXPECT_LT(difference(s.folder.path() / "stored"), 1e-4);
}

TEST(Merge, RefusesAnAdapterThatDivergedAndLeavesNothing) {
  Setting s;
  Adapter adapter = Adapter::attach(*s.model, all_linear(), 3);
  {
    const at::NoGradGuard no_grad;
    adapter.flat().fill_(std::nan(""));
  }
  adapter.save(s.folder.path() / "adapter");
  const fs::path out = s.folder.path() / "merged";
  EXPECT_SAYS(
      user_error([&] { merge_to_folder(s.folder.path() / "base", {s.folder.path() / "adapter"}, out); }),
      "finite weights after merging");
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace lora_test
}  // namespace hone::adapters
