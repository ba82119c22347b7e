// PiSSA beside PEFT's pissa_init (tests/parity/record_adapters.py), and what becomes of it in files.
#include "adapters/pissa.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cstring>

#include "adapters/lora.h"
#include "adapters/merge.h"
#include "model/tiny_model.h"

namespace hone::adapters {
namespace pissa_test {

using namespace hone::test_tools;

const fs::path kTiny = fs::path(HONE_FIXTURES) / "parity" / "tiny_llama";

LoraConfig pissa_config(std::int64_t niter = 0) {
  LoraConfig out;
  out.r = 4;
  out.alpha = 8;
  out.target_modules = {"q_proj", "down_proj"};
  out.init = LoraInit::kPissa;
  out.pissa_niter = niter;
  return out;
}

model::CausalLm open_tiny() {
  return model::CausalLm(*model::open_weights(kTiny), {});
}

at::Tensor logits(const model::CausalLm& model, bool adapters_on = true) {
  const at::NoGradGuard no_grad;
  const ops::PassContext pass = {.adapters_on = adapters_on};
  return model.autograd_logits(model.hidden(make_batch({{5, 9, 200, 17, 33, 90}}), pass), pass);
}

TEST(Pissa, BeginsAsPefts) {
  const auto file = base::SafetensorsFile::open(kTiny / "pissa.safetensors");
  const auto golden = [&](const std::string& name) {
    const base::StoredTensor* stored = file.find(name);
    if (stored == nullptr) throw std::runtime_error("no golden tensor " + name);
    const at::Tensor out = at::empty(stored->shape, at::kFloat);
    std::memcpy(out.mutable_data_ptr(), stored->bytes.data(), stored->bytes.size());
    return out;
  };
  model::CausalLm model = open_tiny();
  const Adapter adapter = Adapter::attach(model, pissa_config(), 1);
  const at::NoGradGuard no_grad;
  int adapted = 0;
  for (const ops::Linear* linear : std::as_const(model).linears()) {
    if (!linear->lora) continue;
    ++adapted;
    const at::Tensor rest = golden("rest." + linear->name);
    EXPECT_LT(largest_difference(linear->weight.dense(), rest), 2e-6) << linear->name;
    // A singular direction and its negative are the same.
    const at::Tensor a = golden("A." + linear->name), b = golden("B." + linear->name);
    EXPECT_LT(largest_difference(linear->lora->a.abs(), a.abs()), 1e-4) << linear->name;
    EXPECT_LT(largest_difference(linear->lora->b.mm(linear->lora->a), b.mm(a)), 1e-5) << linear->name;
  }
  EXPECT_EQ(adapted, 4);
}

TEST(Pissa, TheModelIsTheBaseUntilItTrains) {
  const at::Tensor base = logits(open_tiny());
  for (const std::int64_t niter : {0, 8}) {
    model::CausalLm model = open_tiny();
    const Adapter adapter = Adapter::attach(model, pissa_config(niter), 1);
    EXPECT_LT(largest_difference(logits(model), base), 1e-4);
    EXPECT_GT(largest_difference(logits(model, false), base), 1e-2);
    EXPECT_TRUE(adapter.initial_values().equal(adapter.flat()));
  }
}

TEST(Pissa, TheRandomizedDecompositionIsNearTheWholeOne) {
  model::CausalLm whole = open_tiny(), near = open_tiny(), again = open_tiny();
  const Adapter a = Adapter::attach(whole, pissa_config(), 1), b = Adapter::attach(near, pissa_config(16), 1),
                c = Adapter::attach(again, pissa_config(16), 1);
  EXPECT_TRUE(b.flat().equal(c.flat()));
  const auto left = [](model::CausalLm& model) {
    double sum = 0;
    for (const ops::Linear* linear : model.linears())
      if (linear->lora) sum += linear->weight.dense().norm().item<double>();
    return sum;
  };
  EXPECT_GE(left(near), left(whole) * (1 - 1e-6));
  EXPECT_LT(left(near), left(whole) * 1.01);
}

// What is saved is a LoRA of twice the rank on the unchanged base (PEFT's subtract_mutated_init).
TEST(Pissa, TheSavedAdapterDoesTheSameOnTheBase) {
  for (const bool rslora : {false, true}) {
    const TempFolder temp;
    model::CausalLm model = open_tiny();
    LoraConfig config = pissa_config();
    config.rslora = rslora;
    if (rslora) config.token_indices = {90, 9};
    const Adapter adapter = Adapter::attach(model, config, 1);
    {
      const at::NoGradGuard no_grad;
      adapter.flat().add_(at::sin(at::arange(adapter.flat().numel(), at::kFloat)), 0.05);
    }
    const at::Tensor trained = logits(model);
    adapter.save(temp.path() / "adapter");
    model::CausalLm base = open_tiny();
    const Adapter loaded = Adapter::load(base, temp.path() / "adapter");
    EXPECT_EQ(loaded.config().r, 8);
    EXPECT_EQ(loaded.config().init, LoraInit::kTrue);
    EXPECT_NEAR(loaded.config().scale(), adapter.config().scale(), 1e-12);
    EXPECT_LT(largest_difference(logits(base), trained), 1e-4);
    EXPECT_GT(largest_difference(logits(base, false), trained), 1e-2);
    merge_to_folder(kTiny, {temp.path() / "adapter"}, temp.path() / "merged");
    const model::CausalLm merged(*model::open_weights(temp.path() / "merged"), {});
    EXPECT_LT(largest_difference(logits(merged), trained), 1e-4);
  }
}

TEST(Pissa, ARunGoesOnWithTheSameBits) {
  for (const model::Storage storage : {model::Storage::kPlain, model::Storage::kPacked}) {
    const TempFolder temp;
    const model::DtypePolicy dtypes = {.linear = at::kBFloat16, .residual = at::kFloat};
    const auto source = model::open_weights(kTiny);
    model::CausalLm model(*source, dtypes, storage), other(*source, dtypes, storage);
    const Adapter adapter = Adapter::attach(model, pissa_config(), 1);
    {
      const at::NoGradGuard no_grad;
      adapter.flat().add_(0.01);
    }
    adapter.save(temp.path() / "adapter");
    const Adapter resumed = Adapter::resume_pissa(other, temp.path() / "adapter", pissa_config());
    EXPECT_TRUE(resumed.flat().equal(adapter.flat()));
    EXPECT_TRUE(resumed.initial_values().equal(adapter.initial_values()));
    EXPECT_TRUE(logits(other).equal(logits(model)));
    LoraConfig changed = pissa_config();
    changed.r = 3;
    EXPECT_SAYS(user_error([&] { Adapter::resume_pissa(other, temp.path() / "adapter", changed); }),
                "plan.yaml");
  }
}

TEST(Pissa, ARankAboveTheMatrixIsRefused) {
  model::CausalLm model = open_tiny();
  LoraConfig config = pissa_config();
  config.r = 65;
  EXPECT_SAYS(user_error([&] { Adapter::attach(model, config, 1); }), "lower lora_r");
}

}  // namespace pissa_test
}  // namespace hone::adapters
