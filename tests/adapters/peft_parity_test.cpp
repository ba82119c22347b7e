// Our logits, gradients and merged logits against transformers + PEFT in fp32 (tests/parity/record_tiny.py),
// for a tiny random model of every family. The bound is 1e-4 of each tensor's largest element; the margin
// used is printed.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "adapters/lora.h"
#include "adapters/merge.h"
#include "base/error.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace peft_parity_test {

using namespace hone::test_tools;

constexpr double kBound = 1e-4;

at::Tensor golden(const base::SafetensorsFile& file, const std::string& name) {
  const base::StoredTensor* t = file.find(name);
  if (t == nullptr) throw std::runtime_error("no golden tensor " + name);
  const at::Tensor out = at::empty(t->shape, t->dtype == base::DType::kI64 ? at::kLong : at::kFloat);
  std::memcpy(out.mutable_data_ptr(), t->bytes.data(), t->bytes.size());
  return out;
}

struct Margin {
  double worst = 0;
  std::string name;
  void check(const std::string& tensor, const at::Tensor& ours, const at::Tensor& theirs) {
    ASSERT_EQ(ours.sizes(), theirs.sizes()) << tensor;
    const double scale = theirs.abs().max().item<double>();
    ASSERT_GT(scale, 0) << tensor;
    const double relative = largest_difference(ours.detach(), theirs) / scale;
    EXPECT_LT(relative, kBound) << tensor;
    if (relative > worst) {
      worst = relative;
      name = tensor;
    }
  }
};

std::vector<std::int64_t> list(const at::Tensor& t) {
  return {t.const_data_ptr<std::int64_t>(), t.const_data_ptr<std::int64_t>() + t.numel()};
}

struct Golden {
  const char* model;
  const char* adapter;
  const char* file;
  std::vector<std::string> below = {};  // frozen
};

class Parity : public ::testing::TestWithParam<Golden> {};
INSTANTIATE_TEST_SUITE_P(
    Peft, Parity,
    ::testing::Values(
        Golden{"tiny_llama", "adapter", "golden.safetensors"},
        Golden{"tiny_llama", "adapter_rslora", "golden_rslora.safetensors"},
        Golden{"tiny_llama", "adapter_dora", "golden_dora.safetensors"},
        Golden{"tiny_llama", "adapter_second", "golden_stacked.safetensors", {"adapter", "adapter_rslora"}},
        Golden{"tiny_llama", "adapter_tokens", "golden_tokens.safetensors"},
        Golden{"tiny_llama3", "adapter_tokens", "golden_tokens.safetensors"},
        Golden{"tiny_llama3", "adapter", "golden.safetensors"},
        Golden{"tiny_qwen2", "adapter", "golden.safetensors"},
        Golden{"tiny_qwen3", "adapter", "golden.safetensors"}));

TEST_P(Parity, LogitsLossAndEveryGradient) {
  const fs::path folder = fs::path(HONE_FIXTURES) / "parity" / GetParam().model;
  const auto file = base::SafetensorsFile::open(folder / GetParam().file);
  model::CausalLm model(*model::open_weights(folder), {});
  std::vector<fs::path> all;
  for (const std::string& name : GetParam().below) all.push_back(folder / name);
  attach_frozen(model, {all.begin(), all.end()});
  const Adapter adapter = Adapter::load(model, folder / GetParam().adapter);
  Margin margin;
  std::vector<std::vector<std::int64_t>> ids;
  std::vector<at::Tensor> targets;  // per sequence, shifted
  for (int n = 0; n < 3; ++n) {
    ids.push_back(list(golden(file, "ids_" + std::to_string(n))));
    targets.push_back(golden(file, "labels_" + std::to_string(n)).slice(0, 1));
  }
  const data::Batch batch = make_batch(ids);
  const at::Tensor logits = model.autograd_logits(model.hidden(batch, {}));  // the three sequences packed
  at::Tensor total = at::zeros({});
  std::int64_t scored = 0;
  for (std::size_t n = 0; n < 3; ++n) {
    const at::Tensor own = logits.slice(0, batch.segments[n].begin, batch.segments[n].end);
    const std::string name = "logits_" + std::to_string(n);
    margin.check(name, own, golden(file, name));
    const at::Tensor mask = targets[n] != data::kIgnore;
    const at::Tensor logp = at::log_softmax(own.slice(0, 0, -1), -1);
    total = total - logp.gather(1, targets[n].clamp_min(0).unsqueeze(1)).squeeze(1).masked_select(mask).sum();
    scored += mask.sum().item<std::int64_t>();
  }
  const at::Tensor loss = total / static_cast<double>(scored);
  margin.check("loss", loss.reshape({1}), golden(file, "loss"));
  loss.backward();
  for (const TrainableTensor& t : adapter.tensors()) {
    margin.check(t.name, t.value.grad(), golden(file, "grad." + t.name));
  }
  ops::PassContext off;
  off.adapters_on = false;
  const data::Batch first = make_batch({ids[0]});
  margin.check("base_logits_0", model.logits(model.hidden(first, off), off), golden(file, "base_logits_0"));

  const TempFolder out;
  all.push_back(folder / GetParam().adapter);
  merge_to_folder(folder, all, out.path());
  const model::CausalLm merged(*model::open_weights(out.path()), {});
  margin.check("merged_logits_0", merged.logits(merged.hidden(first, {})), golden(file, "merged_logits_0"));
  std::printf("%s/%s: worst %.2e of 1e-4 (%s)\n", GetParam().model, GetParam().adapter, margin.worst,
              margin.name.c_str());
}

}  // namespace peft_parity_test
}  // namespace hone::adapters
