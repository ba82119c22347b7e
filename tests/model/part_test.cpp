// The parts of a layer have its linears and norms, and say what its tape holds, for every family.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/causal_lm.h"
#include "model/files/weight_source.h"
#include "model/layers/fused_layer.h"
#include "model/layers/per_layer.h"
#include "model/tiny_model.h"

namespace hone::model {
namespace part_test {

using namespace hone::test_tools;

constexpr std::int64_t kTokens = 11;
constexpr DtypePolicy kDtypes = {at::kBFloat16, at::kFloat};
constexpr DtypePolicy kNarrow = {at::kBFloat16,
                                 at::kBFloat16};  // a part without a norm reads the stream itself

class PartsOf : public testing::TestWithParam<const char*> {
 protected:
  PartsOf() {
    write_model(folder_.path(), tiny_config(GetParam()));
    source_ = open_weights(folder_.path());
    model_ = std::make_unique<CausalLm>(*source_, kDtypes, Storage::kPlain);
  }

  TempFolder folder_;
  std::unique_ptr<WeightSource> source_;
  std::unique_ptr<CausalLm> model_;
};

TEST_P(PartsOf, EachLinearAndEachNormIsInOneOfThem) {
  const ModelConfig& config = model_->config();
  for (const DecoderLayer& layer : model_->layers()) {
    const std::string prefix = std::string(names_of(config).layers.hf) + std::to_string(layer.number) + ".";
    std::vector<std::string> listed, held;
    for (const LayerLinear& one : layer_linears(config, layer.number)) listed.push_back(prefix + one.hf);
    for (const ops::Linear* linear : layer.linears()) held.push_back(linear->name);
    EXPECT_EQ(held, listed) << "the order of the files";

    std::set<const ops::Linear*> readers, wanted;
    for (const auto& group : layer.readers()) readers.insert(group.begin(), group.end());
    std::size_t experts = 0;
    for (const LinearStack& stack : layer.stacks()) {
      wanted.insert(stack.linear);
      for (const auto& expert : stack.experts) experts += expert.size();
    }
    for (const LayerLinear& one : layer_linears(config, layer.number)) experts -= one.expert >= 0 ? 1 : 0;
    EXPECT_EQ(experts, 0U) << "each of an expert's linears is in one stack";
    for (const ops::Linear* linear : layer.linears())
      if (linear->name.find(".experts.") == std::string::npos) wanted.insert(linear);
    EXPECT_EQ(readers, wanted);

    for (const LayerNorm& norm : layer_norms(config, layer.number)) {
      std::size_t found = 0;
      for (const LayerPart* part : layer.parts)
        found += part->has_norm(config, layer.number, norm.place) ? 1 : 0;
      EXPECT_EQ(found, 1U) << norm.name.hf;
    }
  }
}

// Of their storages, each once.
std::int64_t bytes_of(std::initializer_list<at::Tensor> tensors) {
  std::map<const void*, std::size_t> storages;
  for (const at::Tensor& one : tensors)
    if (one.defined()) storages[one.storage().data()] = one.storage().nbytes();
  std::int64_t out = 0;
  for (const auto& [data, bytes] : storages) out += static_cast<std::int64_t>(bytes);
  return out;
}

std::int64_t bytes_of(const PartTape& t) {
  return bytes_of({t.stream, t.read, t.gate_up, t.product, t.branch, t.mixer.in, t.mixer.gate,
                   t.mixer.before_norm, t.mixer.out, t.mixer.lse, t.experts.logits, t.experts.gate_up,
                   t.experts.product});
}

PassShape shape_of(DtypePolicy dtypes, RecomputeLevel level) {
  return {.e = static_cast<std::int64_t>(c10::elementSize(dtypes.linear)),
          .residual = static_cast<std::int64_t>(c10::elementSize(dtypes.residual)),
          .keeps_all = level == RecomputeLevel::kNone,
          .keeps_some = level != RecomputeLevel::kLayer};
}

void expect_tapes(const CausalLm& model, DtypePolicy dtypes, RecomputeLevel level) {
  const ModelConfig& config = model.config();
  std::vector<std::int64_t> ids, positions;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    ids.push_back(3 + i);
    positions.push_back(i);
  }
  const RopeTables ropes = model.ropes(positions);
  const ops::PassContext context;
  at::Tensor x = model.embed(ids);
  std::map<std::int64_t, SharedKeys> shared;
  LayerPass pass{config, ropes, context};
  pass.shared = &shared;
  pass.keeps_shared = true;
  if (const PerLayerInputs* inputs = model.per_layer(); inputs != nullptr)
    pass.per_layer = fused_per_layer_inputs(*inputs, {config, dtypes, ids, context}, x, nullptr);
  for (const DecoderLayer& layer : model.layers()) {
    LayerTape tape;
    x = fused_layer_forward(layer, pass, x, {{0, kTokens}}, level, &tape);
    ASSERT_EQ(tape.size(), layer.parts.size());
    for (std::size_t i = 0; i < tape.size(); ++i)
      EXPECT_EQ(bytes_of(tape[i]),
                kTokens * layer.parts[i]->tape_bytes(config, layer.number, shape_of(dtypes, level)))
          << "layer " << layer.number << ", part " << i << ", level " << static_cast<int>(level)
          << ", stream in " << dtypes.residual;
  }
}

TEST_P(PartsOf, TheTapeHasTheBytesOfTheirColumns) {
  const at::NoGradGuard no_grad;
  const CausalLm narrow(*source_, kNarrow, Storage::kPlain);
  for (const RecomputeLevel level : {RecomputeLevel::kNone, RecomputeLevel::kCheap, RecomputeLevel::kLayer}) {
    expect_tapes(*model_, kDtypes, level);
    expect_tapes(narrow, kNarrow, level);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PartsOf, testing::ValuesIn(every_family()));

}  // namespace part_test
}  // namespace hone::model
