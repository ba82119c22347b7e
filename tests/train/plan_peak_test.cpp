// What a plan says of a training pass beside the weights, and the most that its tensors have then: in every
// family, at every recompute level, of the same parts.
#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <set>

#include "adapters/lora.h"
#include "config/plan.h"
#include "model/files/weight_source.h"
#include "model/tiny_model.h"
#include "train/opening/memory_inputs.h"

namespace hone::train {
namespace plan_peak_test {

using namespace hone::test_tools;
using config::RecomputeMode;

constexpr std::int64_t kSegments = 32, kLength = 64, kTokens = kSegments * kLength;

data::Batch batch() {
  std::vector<std::vector<std::int64_t>> rows(kSegments);
  for (std::int64_t row = 0; row < kSegments; ++row)
    for (std::int64_t i = 0; i < kLength; ++i)
      rows[static_cast<std::size_t>(row)].push_back(3 + (i * i * 7 + i * row + row) % 1999);
  return make_batch(rows);
}

// Counts the bytes of all tensors that are made while it is libtorch's.
class Counting final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const data = static_cast<std::byte*>(std::aligned_alloc(kRoom, whole(bytes) + kRoom)) + kRoom;
    static_cast<Header*>(data)[-1] = {this, bytes};
    live_ += bytes;
    most_ = std::max(most_, live_);
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  void begin() { most_ = live_ = 0; }
  std::size_t most() const { return most_; }

 private:
  static constexpr std::size_t kRoom = 64;  // before the data, which are aligned to it
  struct Header {
    Counting* of;
    std::size_t bytes;
  };
  static std::size_t whole(std::size_t bytes) { return (bytes + kRoom - 1) / kRoom * kRoom; }
  static void release(void* data) {
    if (data == nullptr) return;
    const Header header = static_cast<Header*>(data)[-1];
    header.of->live_ -= header.bytes;
    std::free(static_cast<std::byte*>(data) - kRoom);
  }
  std::size_t live_ = 0, most_ = 0;
};

// Bytes that tensors have at most while it runs, beside what they have now. One thread makes them.
template <typename Run>
std::int64_t most_of(const Run& run) {
  static Counting counting;
  static std::uint8_t priority = 200;
  c10::Allocator* const before = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&counting, priority);
  counting.begin();
  run();
  const auto out = static_cast<std::int64_t>(counting.most());
  c10::SetCPUAllocator(before, priority);
  return out;
}

struct Sides {
  std::vector<std::string> targets = {"all-linear"};
  double dropout = 0;
  bool dora = false;
};

struct Model {
  Model(const base::Json& shape, model::DtypePolicy dtypes, const Sides& sides = {},
        model::Storage storage = model::Storage::kPlain) {
    write_model(folder.path(), shape);
    source = model::open_weights(folder.path());
    lm = std::make_unique<model::CausalLm>(*source, dtypes, storage);
    adapters::LoraConfig config;
    config.r = 4;
    config.dropout = sides.dropout;
    config.dora = sides.dora;
    config.target_modules = sides.targets;
    config.target_is_regex = sides.targets.front() == "all-linear";
    config.init = adapters::LoraInit::kFalse;
    adapter = adapters::Adapter::attach(*lm, config, 7);
    adapter->zero_gradient();
  }

  TempFolder folder;
  std::unique_ptr<model::WeightSource> source;
  std::unique_ptr<model::CausalLm> lm;
  std::optional<adapters::Adapter> adapter;
};

// As a step of the optimizer, which changes no number here: what was made of the factors is made again.
void step(const Model& model) {
  const at::NoGradGuard no_grad;
  for (const model::DecoderLayer& layer : model.lm->layers())
    for (const ops::Linear* linear : layer.linears())
      if (linear->lora) at::Tensor(linear->lora->a).add_(0);
}

// Of the second pass: the first one fills caches.
std::int64_t measured(const Model& model, const PassForm& form, const data::Batch& all = batch()) {
  const auto pass = [&] { score_and_backward(*model.lm, all, {.training = true}, 17.0, form, {}); };
  pass();
  step(model);
  return most_of(pass);
}

struct Planned {
  std::int64_t bytes = 0;
  std::string segments = {};
};

Planned planned(const Model& model, RecomputeMode level, bool fused_layer = true,
                std::int64_t scored = kTokens - kSegments, std::int64_t tokens = kTokens) {
  config::Plan plan;
  plan.use_peft = true;
  plan.threads = 1;
  MemoryInputs in =
      memory_inputs(*model.lm, plan, 0, {.tokens = tokens, .scored = scored, .segment = kLength}, {});
  in.threads = 0;          // their scratch is no tensor's
  in.keeps_blocks = true;  // what counts tensors has no heap
  const MemoryPlan found = memory_of(in, fused_layer, level);
  Planned out;
  for (std::size_t i = kFirstOfBatch; i < found.segments.size(); ++i) {
    out.bytes += found.segments[i].bytes;
    out.segments += "\n  " + found.segments[i].name + ": " + std::to_string(found.segments[i].bytes);
  }
  return out;
}

void expect_ratio(std::int64_t peak, const Planned& plan, double least, double most, const std::string& of) {
  const double ratio = static_cast<double>(peak) / static_cast<double>(plan.bytes);
  EXPECT_LT(ratio, most) << of << ": peak " << peak << ", planned " << plan.bytes << plan.segments;
  EXPECT_GT(ratio, least) << of << ": peak " << peak << ", planned " << plan.bytes << plan.segments;
}

std::string described(model::DtypePolicy dtypes) {
  return std::string(c10::toString(dtypes.linear)) + ", stream in " + c10::toString(dtypes.residual);
}

void expect_levels(const Model& model, model::DtypePolicy dtypes,
                   const std::function<double(RecomputeMode)>& least, double most) {
  constexpr std::pair<RecomputeMode, model::RecomputeLevel> kLevels[] = {
      {RecomputeMode::kNone, model::RecomputeLevel::kNone},
      {RecomputeMode::kCheap, model::RecomputeLevel::kCheap},
      {RecomputeMode::kLayer, model::RecomputeLevel::kLayer}};
  for (const auto& [mode, level] : kLevels)
    expect_ratio(measured(model, {.is_fused = true, .recompute = level}), planned(model, mode), least(mode),
                 most, "recompute " + std::string(recompute_name(mode)) + ", " + described(dtypes));
}

// The delta rule's backward is an upper bound, which is much in so short a batch.
double least_ratio(const std::string& family, RecomputeMode level) {
  return family == "qwen3_5_text" && level == RecomputeMode::kLayer ? 0.7 : 0.97;
}

class PlanPeak : public testing::TestWithParam<const char*> {};

TEST_P(PlanPeak, TheTensorsOfAPassAreWhatThePartsSay) {
  for (const model::DtypePolicy dtypes :
       {model::DtypePolicy{at::kBFloat16, at::kBFloat16}, model::DtypePolicy{at::kBFloat16, at::kFloat}}) {
    const Model model(wide_config(GetParam()), dtypes);
    expect_levels(model, dtypes, [](RecomputeMode mode) { return least_ratio(GetParam(), mode); }, 1.03);
  }
}

void expect_sides(const std::string& family, const Sides& sides, double least = 0.97) {
  for (const model::DtypePolicy dtypes :
       {model::DtypePolicy{at::kBFloat16, at::kBFloat16}, model::DtypePolicy{at::kFloat, at::kFloat}}) {
    const testing::ScopedTrace of(__FILE__, __LINE__, family);
    const Model model(wide_config(family), dtypes, sides);
    expect_levels(model, dtypes, [&](RecomputeMode) { return least; }, 1.01);
  }
}

// The CPU draws masks in its kernels: they are no tensors.
TEST(PlanPeakOfSides, WithDropoutHaveTheirOwnRowsAndNoMask) {
  expect_sides("llama", {.dropout = 0.1});
}

// The plan is an upper bound in so short a pass: it has a copy that whole runs have beside their tensors
// (tests/runs/plan_peaks.py), and a norm beside the most of a forward.
TEST(PlanPeakOfSides, OfDoraHaveWhatTheirMagnitudesScale) {
  expect_sides("llama", {.dora = true}, 0.9);
  expect_sides("gemma4_text", {.dora = true}, 0.8);
  expect_sides("llama", {.dropout = 0.1, .dora = true}, 0.8);
  expect_sides("qwen3", {.targets = {"q_proj", "k_proj", "v_proj"}, .dropout = 0.1, .dora = true}, 0.75);
}

// Few tokens of a model whose matrices are large.
TEST(PlanPeakOfSides, OfDoraMakeNormsInAForward) {
  base::Json shape = wide_config("llama");
  shape.update({{"hidden_size", 512}, {"intermediate_size", 4096}});
  for (const model::Storage storage : {model::Storage::kPlain, model::Storage::kPacked}) {
    const Model model(shape, {at::kBFloat16, at::kBFloat16}, {.dora = true}, storage);
    const Planned plan =
        planned(model, RecomputeMode::kNone, /*fused_layer=*/true, /*scored=*/kLength - 1, kLength);
    const std::int64_t peak = measured(model, {.is_fused = true, .recompute = model::RecomputeLevel::kNone},
                                       make_batch({std::vector<std::int64_t>(kLength, 3)}));
    expect_ratio(peak, plan, 0.9, 1.02, storage == model::Storage::kPacked ? "packed" : "plain");
  }
}

// Without one on the last linear of the MLP nothing reads the product, and its level does not make it.
TEST(PlanPeakOfSides, OnSomeLinearsNeedLess) {
  expect_sides("llama", {.targets = {"q_proj", "v_proj"}});
  expect_sides("llama", {.targets = {"q_proj", "v_proj"}, .dropout = 0.1});
  expect_sides("llama", {.targets = {"gate_proj"}, .dropout = 0.1});
  expect_sides("qwen3", {.targets = {"o_proj", "down_proj"}, .dora = true}, 0.88);
}

// A head that needs more than a layer, with half of the tokens scored: the most is when the gradient of the
// stream is made.
TEST(PlanPeakOfHead, HasTheStreamsGradientBesideThatOfItsRows) {
  base::Json shape = wide_config("llama");
  shape.update({{"hidden_size", 2048}, {"intermediate_size", 64}});
  const Model model(shape, {at::kBFloat16, at::kFloat});
  data::Batch half = batch();
  for (std::size_t i = 0; i < half.labels.size(); i += 2) half.labels[i] = data::kIgnore;
  const Planned plan =
      planned(model, RecomputeMode::kNone, /*fused_layer=*/true, /*scored=*/scored_tokens(half));
  const std::int64_t peak =
      measured(model, {.is_fused = true, .recompute = model::RecomputeLevel::kNone}, half);
  expect_ratio(peak, plan, 0.97, 1.01, "half of the rows scored");
}

// The families whose layers are Llama's; plans of the others are upper bounds in the plain form.
bool is_llama(const std::string& family) {
  const std::set<std::string> all = {"llama",   "qwen2",   "qwen3",     "mistral",
                                     "smollm3", "granite", "ministral3"};
  return all.contains(family);
}

class PlanPeakOfPlain : public testing::TestWithParam<const char*> {};

void expect_plain(const base::Json& shape, model::DtypePolicy dtypes, double least, const Sides& sides = {}) {
  const Model model(shape, dtypes, sides);
  expect_ratio(measured(model, {.is_fused = false}),
               planned(model, RecomputeMode::kNone, /*fused_layer=*/false), least, 1.03, described(dtypes));
}

constexpr model::DtypePolicy kAllDtypes[] = {
    {at::kBFloat16, at::kBFloat16}, {at::kBFloat16, at::kFloat}, {at::kFloat, at::kFloat}};

TEST_P(PlanPeakOfPlain, IsWhatAutogradSaves) {
  for (const model::DtypePolicy dtypes : kAllDtypes)
    expect_plain(wide_config(GetParam()), dtypes, is_llama(GetParam()) ? 0.97 : 0.7);
}

// Where an MLP has more than the head. The plan has a third width, which whole runs have beside their
// tensors.
TEST(PlanPeakOfPlainMlp, HasTwoOfItsWidths) {
  base::Json shape = wide_config("llama");
  shape["intermediate_size"] = 3000;
  for (const model::DtypePolicy dtypes : kAllDtypes) expect_plain(shape, dtypes, 0.92);
}

TEST(PlanPeakOfPlainDora, HasBothThatAMagnitudeScales) {
  for (const model::DtypePolicy dtypes : kAllDtypes)
    expect_plain(wide_config("llama"), dtypes, 0.9, {.dora = true});
}

INSTANTIATE_TEST_SUITE_P(Families, PlanPeakOfPlain, testing::ValuesIn(every_family()));
INSTANTIATE_TEST_SUITE_P(Families, PlanPeak, testing::ValuesIn(every_family()));

}  // namespace plan_peak_test
}  // namespace hone::train
