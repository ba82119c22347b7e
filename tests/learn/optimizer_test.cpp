// Every optimizer against the library that transformers' Trainer builds (record_optimizers.py), step by step.
#include "learn/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/files/safetensors.h"
#include "base/json.h"

namespace hone::learn {
namespace optimizer_test {

using Kind = OptimizerKind;
constexpr int kSteps = 20;

class Recorded {
 public:
  explicit Recorded(const std::string& name)
      : file_(base::SafetensorsFile::open(HONE_FIXTURES "/parity/learn/" + name + ".safetensors")),
        cases_(base::parse_json(file_.metadata().at("cases"), name)),
        shapes_(base::parse_json(file_.metadata().at("names"), name)) {}

  const base::Json& cases() const { return cases_; }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  at::Tensor tensor(const std::string& name) const {
    const auto* stored = file_.find(name);
    base::require(stored != nullptr, "optimizer_test", name);
    at::Tensor out = at::empty(stored->shape, stored->dtype == base::DType::kU8 ? at::kByte : at::kFloat);
    std::memcpy(out.mutable_data_ptr(), stored->bytes.data(), stored->bytes.size());
    return out;
  }
  FlatLayout layout() const {
    std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors;
    for (const auto& [name, shape] : shapes_.items())
      tensors.emplace_back(name, shape.get<std::vector<std::int64_t>>());
    return flat_layout(tensors);
  }

 private:
  base::SafetensorsFile file_;
  base::Json cases_, shapes_;
};

// The recorder's `values`.
at::Tensor values(std::int64_t size, std::int64_t step) {
  at::Tensor out = at::empty({size}, at::kFloat);
  auto* x = out.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < size; ++i) {
    const auto whole = static_cast<float>((i * 7919 + step * 10007 + 13) % 2003 - 1001);
    x[i] = std::ldexp(whole / 1024.0F, -static_cast<int>((i / 100 + step) % 6));
    if (step > 0 && step < 3 && i >= 256 && i < 512) x[i] = 0;
  }
  return out;
}

OptimizerOptions options_of(const base::Json& one) {
  static const std::map<std::string, Kind> kinds = {{"adamw_torch", Kind::kAdamW},
                                                    {"adamw_torch_fused", Kind::kAdamW},
                                                    {"paged_adamw_32bit", Kind::kAdamW},
                                                    {"adamw_bnb_8bit", Kind::kAdamW8bit},
                                                    {"paged_adamw_8bit", Kind::kAdamW8bit},
                                                    {"rmsprop", Kind::kRmsprop},
                                                    {"sgd", Kind::kSgd},
                                                    {"adagrad", Kind::kAdagrad},
                                                    {"adafactor", Kind::kAdafactor},
                                                    {"lion_32bit", Kind::kLion},
                                                    {"paged_lion_32bit", Kind::kLion},
                                                    {"lion_8bit", Kind::kLion8bit}};
  OptimizerOptions out{.kind = kinds.at(one["optim"].get<std::string>())};
  out.weight_decay = one.value("weight_decay", 0.0);
  out.beta1 = one.value("adam_beta1", 0.9);
  out.beta2 = one.value("adam_beta2", 0.999);
  out.epsilon = one.value("adam_epsilon", 1e-8);
  const std::string args = one.value("optim_args", std::string());
  OptimizerArguments& to = out.arguments;
  if (out.kind == Kind::kAdagrad) to.eps = 1e-10;
  const auto number = [&](const std::string& key, double& field) {
    const std::size_t at = args.find(key + "=");
    if (at != std::string::npos) field = std::stod(args.substr(at + key.size() + 1));
  };
  number("momentum", to.momentum);
  number("dampening", to.dampening);
  number("alpha", to.alpha);
  number("eps", to.eps);
  number("lr_decay", to.lr_decay);
  to.centered = args.find("centered") != std::string::npos;
  to.nesterov = args.find("nesterov") != std::string::npos;
  return out;
}

double rate_of(int step) {
  return 1e-2 * (1 - step / 25.0);
}

// Three layers and what is outside them, of sizes that no block fits.
FlatLayout layers_layout() {
  FlatLayout out = flat_layout({{"model.embed_tokens.weight", {301, 64}},
                                {"model.layers.0.input_layernorm.weight", {64}},
                                {"model.layers.0.mlp.up_proj.weight", {1100, 64}},
                                {"model.layers.0.mlp.up_proj.bias", {1100}},
                                {"model.layers.1.mlp.up_proj.weight", {77, 64}},
                                {"model.layers.2.mlp.up_proj.weight", {3000, 64}},
                                {"model.norm.weight", {64}}});
  for (std::size_t i = 1; i + 1 < out.size(); ++i) out[i].part = i < 4 ? 0 : static_cast<std::int64_t>(i) - 3;
  return out;
}

TEST(Optimizer, AStepInPartsHasTheBitsOfOne) {
  const FlatLayout layout = layers_layout();
  const std::int64_t size = layout.back().offset + layout.back().size;
  // what is taken together, from the last to the first
  const std::vector<std::pair<std::size_t, std::size_t>> parts = {{6, 7}, {5, 6}, {4, 5}, {1, 4}, {0, 1}};
  for (const Kind kind : {Kind::kAdamW, Kind::kAdamW8bit, Kind::kAdafactor, Kind::kRmsprop, Kind::kSgd,
                          Kind::kAdagrad, Kind::kLion, Kind::kLion8bit}) {
    OptimizerOptions options{.kind = kind};
    options.weight_decay = 0.1;
    options.arguments.momentum = 0.5;
    Optimizer one(options, layout, at::kCPU), two(options, layout, at::kCPU);
    const at::Tensor p = values(size, 0), q = values(size, 0);
    for (int step = 1; step <= 3; ++step) {
      const at::Tensor gradient = values(size, step);
      one.step(p, gradient, 1e-2);
      two.begin_step();
      for (const auto& [first, last] : parts) {
        const std::int64_t begin = layout[first].offset;
        const std::int64_t end = layout[last - 1].offset + layout[last - 1].size;
        two.step_part(q, begin, gradient.narrow(0, begin, end - begin).clone(), 1e-2);
      }
      ASSERT_TRUE(p.equal(q)) << one.name() << ", step " << step;
    }
    EXPECT_EQ(one.steps(), two.steps());
    for (std::size_t k = 0; k < one.state().size(); ++k)
      EXPECT_TRUE(one.state()[k].value.equal(two.state()[k].value))
          << one.name() << " " << one.state()[k].name;
  }
}

// Three ranks' shares of every part: together the bits of one optimizer, in memory and in a file; what is not held stays.
TEST(Optimizer, SharesHaveTheBitsOfTheWhole) {
  const FlatLayout layout = layers_layout();
  const std::int64_t size = layout.back().offset + layout.back().size;
  const std::vector<std::int64_t> cuts = {0, 19264, 19300, 19301, 90000, 95000, size};
  const auto folder = base::fs::path(::testing::TempDir()) / "hone_optimizer_shares";
  for (const Kind kind : {Kind::kAdamW, Kind::kRmsprop, Kind::kSgd, Kind::kAdagrad, Kind::kLion}) {
    OptimizerOptions options{.kind = kind};
    options.weight_decay = 0.1;
    options.arguments.momentum = 0.5;
    Optimizer one(options, layout, at::kCPU);
    std::vector<Optimizer> shares;
    std::vector<at::Tensor> q;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      StatePlace place = {.held = std::vector<FlatRange>()};
      for (std::size_t i = rank; i + 1 < cuts.size(); i += 3) place.held->push_back({cuts[i], cuts[i + 1]});
      if (rank == 1) place.offload = folder;
      shares.emplace_back(options, layout, at::kCPU, place);
      q.push_back(values(size, 0));
      EXPECT_LE(shares.back().memory_bytes(), shares.back().state_bytes());
    }
    const at::Tensor p = values(size, 0);
    for (int step = 1; step <= 3; ++step) {
      one.step(p, values(size, step), 1e-2);
      for (std::size_t rank = 0; rank < 3; ++rank) shares[rank].step(q[rank], values(size, step), 1e-2);
    }
    std::int64_t bytes = 0;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      bytes += shares[rank].state_bytes();
      at::Tensor expected = values(size, 0);
      for (const FlatRange& held : shares[rank].held()) {
        const auto of = [&](const at::Tensor& flat) {
          return flat.narrow(0, held.begin, held.end - held.begin);
        };
        of(expected).copy_(of(p));
        for (std::size_t k = 0; k < one.state().size(); ++k)
          EXPECT_TRUE(of(one.state()[k].value).equal(of(shares[rank].state()[k].value))) << one.name();
      }
      EXPECT_TRUE(q[rank].equal(expected)) << one.name() << ", rank " << rank;
    }
    EXPECT_EQ(bytes, one.state_bytes()) << one.name();
  }
  for (const Kind kind : {Kind::kAdafactor, Kind::kAdamW8bit, Kind::kLion8bit}) EXPECT_FALSE(divides(kind));
}

struct Worst {
  double error = 0;
  std::int64_t different = 0;  // elements with other bits
  std::string at = "nothing";
};

// All of a case's steps; the worst difference of a tensor is relative to its largest element.
Worst compare(const Recorded& recorded, const std::string& name, Optimizer& optimizer) {
  const FlatLayout layout = recorded.layout();
  const std::int64_t size = layout.back().offset + layout.back().size;
  at::Tensor p = values(size, 0).clone();
  Worst out;
  for (int step = 1; step <= kSteps; ++step) {
    optimizer.step(p, values(size, step), rate_of(step));
    const std::string key = name + "." + std::to_string(step);
    if (!recorded.has(key)) continue;
    const at::Tensor theirs = recorded.tensor(key);
    for (const FlatTensor& tensor : layout) {
      const at::Tensor x = p.narrow(0, tensor.offset, tensor.size),
                       y = theirs.narrow(0, tensor.offset, tensor.size);
      const double scale = y.abs().max().item<double>();
      const double error = (x - y).abs().max().item<double>() / scale;
      out.different += x.ne(y).sum().item<std::int64_t>();
      if (error <= out.error) continue;
      out.error = error;
      out.at = tensor.name + " after step " + std::to_string(step);
    }
  }
  return out;
}

// torch's and transformers' operators are libtorch's, called in their order; adafactor's norms and AdamW's kernel
// round otherwise.
TEST(Optimizers, EqualTheLibrariesOfTheTrainer) {
  for (const char* file : {"optimizers", "optimizers_bnb"}) {
    const Recorded recorded(file);
    for (const auto& [name, one] : recorded.cases().items()) {
      Optimizer optimizer(options_of(one), recorded.layout(), at::kCPU);
      const Worst worst = compare(recorded, name, optimizer);
      std::printf("[margin] %s %s: worst %.2g at %s, %.2g %% of 1e-06; %lld elements with other bits\n", file,
                  name.c_str(), worst.error, worst.at.c_str(), worst.error / 1e-8,
                  static_cast<long long>(worst.different));
      EXPECT_LE(worst.error, 1e-6) << file << ' ' << name << " at " << worst.at;
      EXPECT_EQ(optimizer.steps(), kSteps);
    }
  }
}

// The codes, their scales and the parameters, bit for bit where libtorch's square root (MKL's, which differs by a bit between
// makers of processors) is that of the recording machine.
TEST(Optimizers, EightBitStatesAreBitsandbytes) {
  const Recorded recorded("optimizers_8bit");
  const bool same_machine = values(4096, 0).abs().sqrt().equal(recorded.tensor("probe.sqrt"));
  const std::map<std::string, std::string> keys = {
      {"state1", "state1.uint8"},     {"state2", "state2.uint8"},    {"absmax1", "absmax1.float32"},
      {"absmax2", "absmax2.float32"}, {"exp_avg", "state1.float32"}, {"exp_avg_sq", "state2.float32"}};
  for (const auto& [name, one] : recorded.cases().items()) {
    Optimizer optimizer(options_of(one), recorded.layout(), at::kCPU);
    const Worst worst = compare(recorded, name, optimizer);
    std::printf("[margin] 8-bit %s: worst %.2g at %s; %lld elements with other bits\n", name.c_str(),
                worst.error, worst.at.c_str(), static_cast<long long>(worst.different));
    EXPECT_LE(worst.error, 1e-5) << name;
    EXPECT_TRUE(!same_machine || worst.different == 0) << name;
    for (const StateTensor& state : optimizer.state()) {
      const at::Tensor theirs = recorded.tensor(name + ".state." + keys.at(state.name));
      ASSERT_EQ(state.value.sizes(), theirs.sizes()) << name << ' ' << state.name;
      EXPECT_TRUE(!same_machine || state.value.equal(theirs)) << name << ' ' << state.name;
    }
  }
}

// Larger than a block, with parts that do not decay, and tensors whose state is codes.
FlatLayout mixed_layout() {
  return flat_layout({{"q_proj.lora_A.weight", {64, 1100}},
                      {"q_proj.bias", {11}},
                      {"q_proj.lora_B.weight", {96, 64}},
                      {"norm.weight", {70}},
                      {"v_proj.lora_A.weight", {30, 9}},
                      {"embed_tokens.weight", {20, 400}}});
}

std::vector<OptimizerOptions> every_optimizer() {
  std::vector<OptimizerOptions> out;
  for (const Kind kind : {Kind::kAdamW, Kind::kAdamW8bit, Kind::kAdafactor, Kind::kRmsprop, Kind::kSgd,
                          Kind::kAdagrad, Kind::kLion, Kind::kLion8bit})
    out.push_back({.kind = kind, .weight_decay = 0.1, .arguments = {.momentum = 0.9, .centered = true}});
  return out;
}

struct Ran {
  at::Tensor p;
  Optimizer optimizer;
};

Ran run_steps(const OptimizerOptions& options, int steps) {
  Ran out{values(96000, 0), Optimizer(options, mixed_layout(), at::kCPU)};
  const std::int64_t size = out.optimizer.layout().back().offset + out.optimizer.layout().back().size;
  out.p = values(size, 0);
  for (int step = 1; step <= steps; ++step) out.optimizer.step(out.p, values(size, step), rate_of(step));
  return out;
}

TEST(Optimizers, BitsDoNotDependOnThreads) {
  const int threads = at::get_num_threads();
  for (const OptimizerOptions& options : every_optimizer()) {
    at::set_num_threads(1);
    const Ran one = run_steps(options, 3);
    for (const int count : {2, 3}) {
      at::set_num_threads(count);
      EXPECT_TRUE(run_steps(options, 3).p.equal(one.p)) << one.optimizer.name() << " with " << count;
    }
    at::set_num_threads(threads);
  }
}

TEST(Optimizers, ARestoredStateGoesOnWithTheSameBits) {
  for (const OptimizerOptions& options : every_optimizer()) {
    Ran whole = run_steps(options, 2);
    const std::int64_t size = whole.p.numel();
    Optimizer restored(options, mixed_layout(), at::kCPU);
    std::vector<at::Tensor> state;
    for (const StateTensor& one : whole.optimizer.state()) state.push_back(one.value.clone());
    restored.restore(whole.optimizer.steps(), state);
    at::Tensor p = whole.p.clone();
    for (int step = 3; step < 6; ++step) {
      whole.optimizer.step(whole.p, values(size, step), rate_of(step));
      restored.step(p, values(size, step), rate_of(step));
    }
    EXPECT_TRUE(p.equal(whole.p)) << restored.name();
    Optimizer fresh(options, mixed_layout(), at::kCPU);  // the state is not idle
    at::Tensor other = run_steps(options, 2).p;
    for (int step = 3; step < 6; ++step) fresh.step(other, values(size, step), rate_of(step));
    EXPECT_FALSE(other.equal(whole.p)) << restored.name();
  }
}

TEST(Optimizers, TheReferenceIsTheNextStepInFp64) {
  for (const OptimizerOptions& options : every_optimizer()) {
    Ran ran = run_steps(options, 2);
    const at::Tensor gradient = values(ran.p.numel(), 3), before = ran.p.clone();
    std::vector<at::Tensor> references;
    for (std::size_t i = 0; i < ran.optimizer.layout().size(); ++i)
      references.push_back(ran.optimizer.reference(i, ran.p, gradient, 1e-2));
    EXPECT_TRUE(ran.p.equal(before));
    EXPECT_EQ(ran.optimizer.steps(), 2);
    ran.optimizer.step(ran.p, gradient, 1e-2);
    for (std::size_t i = 0; i < references.size(); ++i) {
      const FlatTensor& tensor = ran.optimizer.layout()[i];
      const at::Tensor start = before.narrow(0, tensor.offset, tensor.size).to(at::kDouble);
      const at::Tensor update = ran.p.narrow(0, tensor.offset, tensor.size).to(at::kDouble) - start;
      const double off = (references[i] - start - update).norm().item<double>();
      EXPECT_LT(off, 1e-4 * update.norm().item<double>()) << ran.optimizer.name() << ' ' << tensor.name;
    }
  }
}

TEST(Optimizers, OnlyWeightsDecayAndEmbeddingsKeepFp32) {
  std::map<std::string, bool> decays, embeddings;
  for (const FlatTensor& tensor : flat_layout({{"a.lora_A.weight", {1}},
                                               {"a.bias", {1}},
                                               {"input_layernorm.weight", {1}},
                                               {"q_norm.weight", {1}},
                                               {"model.norm.weight", {1}},
                                               {"enorm.weight", {1}},
                                               {"x.lora_magnitude_vector.weight", {1}},
                                               {"model.embed_tokens.weight", {1}},
                                               {"embed_tokens.token_adapter.trainable_tokens_delta", {1}}})) {
    decays[tensor.name] = tensor.decays;
    embeddings[tensor.name] = tensor.is_embedding;
  }
  EXPECT_TRUE(decays["a.lora_A.weight"] && decays["enorm.weight"] &&
              decays["x.lora_magnitude_vector.weight"]);
  EXPECT_FALSE(decays["a.bias"] || decays["input_layernorm.weight"] || decays["q_norm.weight"] ||
               decays["model.norm.weight"]);
  EXPECT_TRUE(embeddings["model.embed_tokens.weight"]);
  EXPECT_FALSE(embeddings["embed_tokens.token_adapter.trainable_tokens_delta"]);
}

TEST(Optimizers, StateBytes) {
  const std::int64_t all = 70400 + 11 + 6144 + 70 + 270 + 8000;
  const auto bytes = [](Kind kind, OptimizerArguments arguments = {}) {
    return Optimizer({.kind = kind, .arguments = arguments}, mixed_layout(), at::kCPU).state_bytes();
  };
  EXPECT_EQ(bytes(Kind::kAdamW), 8 * all);
  EXPECT_EQ(bytes(Kind::kSgd), 0);
  EXPECT_EQ(bytes(Kind::kSgd, {.momentum = 0.9}), 4 * all);
  EXPECT_EQ(bytes(Kind::kRmsprop), 4 * all);
  EXPECT_EQ(bytes(Kind::kRmsprop, {.momentum = 0.9, .centered = true}), 12 * all);
  EXPECT_EQ(bytes(Kind::kAdafactor), 4 * (64 + 1100 + 11 + 96 + 64 + 70 + 30 + 9 + 20 + 400));
  EXPECT_EQ(bytes(Kind::kLion8bit), 70400 + 6144 + 4 * (275 + 24) + 4 * (11 + 70 + 270 + 8000));
}

TEST(Optimizers, RefuseTensorsOfAnotherSize) {
  Optimizer optimizer({}, flat_layout({{"a", {4}}}), at::kCPU);
  EXPECT_THROW(optimizer.step(at::zeros({4}), at::zeros({5}), 1e-3), base::InternalError);
  EXPECT_THROW(optimizer.restore(1, {}), base::InternalError);
  EXPECT_EQ(optimizer.steps(), 0);
}

}  // namespace optimizer_test
}  // namespace hone::learn
