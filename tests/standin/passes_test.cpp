// One training pass of each family, in both forms of the layers: the CPU's gradients, and what a pass may cross.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "adapters/lora.h"
#include "model/files/weight_source.h"
#include "standin/cuda_only.h"
#include "standin/standin.h"
#include "train/passes/scored_pass.h"

namespace hone::standin {
namespace passes_test {

struct Found {
  train::ScoredFacts facts;
  at::Tensor gradient;  // [P], on the CPU
  Counts counts;
};

// Three sequences, one longer than a tile of keys; every token but the first of each is scored.
data::Batch some_batch() {
  data::Batch out;
  std::int64_t row = 0;
  for (const std::int64_t length : {70, 9, 24}) {
    const auto begin = static_cast<std::int64_t>(out.ids.size());
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t id = 3 + (i * i * 7 + i * length + length) % 45;
      out.ids.push_back(id);
      out.positions.push_back(i);
      out.labels.push_back(i == 0 ? data::kIgnore : id);
    }
    out.segments.push_back({.begin = begin, .end = begin + length, .row = row++});
  }
  return out;
}

Found run_pass(const std::string& family, model::DtypePolicy dtypes, const train::PassForm& form,
               at::Device on, const model::Quantize& quantize = {}, std::int64_t rank = 4) {
  const base::fs::path folder = base::fs::path(HONE_FIXTURES) / "parity" / family;
  model::CausalLm model(*model::open_weights(folder), dtypes, model::Storage::kPlain, quantize, on);
  adapters::Adapter adapter = adapters::Adapter::attach(model,
                                                        {.r = rank,
                                                         .alpha = static_cast<double>(2 * rank),
                                                         .target_modules = {"all-linear"},
                                                         .target_is_regex = true,
                                                         .init = adapters::LoraInit::kFalse},
                                                        7);
  adapter.zero_gradient();
  const data::Batch batch = some_batch();
  const Counts before = counts();
  Found out;
  out.facts = train::score_and_backward(model, batch, {.training = true, .seed = 3, .step = 5}, 100, form);
  out.counts = counts() - before;
  out.gradient = adapter.flat_gradient().cpu();
  return out;
}

double gap(const at::Tensor& expected, const at::Tensor& found) {
  return ((found - expected).abs().max() / expected.abs().max()).item<double>();
}

TEST(Passes, OfEveryFamilyAreTheCpus) {
  const std::set<std::string> windowed = {"tiny_gemma2", "tiny_gemma3", "tiny_mistral", "tiny_olmo3",
                                          "tiny_exaone4"};
  for (const std::string family :
       {"tiny_llama", "tiny_llama3", "tiny_qwen2", "tiny_qwen3", "tiny_phi3_long", "tiny_ministral3",
        "tiny_gemma2", "tiny_gemma", "tiny_gemma3", "tiny_mistral", "tiny_smollm3", "tiny_granite",
        "tiny_granite4", "tiny_olmo2", "tiny_olmo3", "tiny_lfm2", "tiny_exaone4"}) {
    for (const bool fused : {true, false}) {
      SCOPED_TRACE(family + (fused ? " fused" : " autograd"));
      const train::PassForm form{.is_fused = fused, .recompute = model::RecomputeLevel::kLayer};
      const Found cpu = run_pass(family, {}, form, at::kCPU), here = run_pass(family, {}, form, device());
      EXPECT_NEAR(here.facts.nll_sum, cpu.facts.nll_sum, 1e-5 * cpu.facts.nll_sum);
      EXPECT_NEAR(here.facts.entropy_sum, cpu.facts.entropy_sum, 1e-5 * cpu.facts.entropy_sum);
      EXPECT_EQ(here.facts.correct, cpu.facts.correct);
      EXPECT_LE(gap(cpu.gradient, here.gradient), 1e-5);
      // Ids, positions, which rows are scored, and their targets; back comes one tensor of sums. Queries that are scaled
      // by position have a table of their own: positions, and the scale.
      // The fused backward of a window copies what each block of queries sees.
      if (!windowed.contains(family)) {
        EXPECT_EQ(here.counts.staged, family == "tiny_ministral3" ? 6 : 4);
      }
      EXPECT_EQ(here.counts.to_host, 1);
      EXPECT_EQ(here.counts.synchronizations(), 1);
    }
  }
}

// A delta rule: token by token on the CPU, in chunks elsewhere. The longest sequence has two.
TEST(Passes, OfDeltaRulesAreTheCpus) {
  for (const bool fused : {true, false}) {
    const train::PassForm form{.is_fused = fused, .recompute = model::RecomputeLevel::kLayer};
    const Found cpu = run_pass("tiny_qwen3_5", {}, form, at::kCPU),
                here = run_pass("tiny_qwen3_5", {}, form, device());
    EXPECT_NEAR(here.facts.nll_sum / cpu.facts.nll_sum, 1.0, 1e-5);
    EXPECT_LT(gap(cpu.gradient, here.gradient), 1e-4);
  }
}

// Layers' own inputs, norms of values, keys and values of earlier layers.
TEST(Passes, OfGemma4AreTheCpus) {
  for (const bool fused : {true, false}) {
    const train::PassForm form{.is_fused = fused, .recompute = model::RecomputeLevel::kLayer};
    const Found cpu = run_pass("tiny_gemma4", {}, form, at::kCPU),
                here = run_pass("tiny_gemma4", {}, form, device());
    EXPECT_NEAR(here.facts.nll_sum / cpu.facts.nll_sum, 1.0, 1e-5);
    EXPECT_LT(gap(cpu.gradient, here.gradient), 1e-4);
  }
}

// In bf16 the forms round at different places: the products' order of additions is the processor's.
// Routers and experts with a LoRA: the numbers of rows of each expert come to the host.
TEST(Passes, OfExpertsAreTheCpus) {
  for (const std::string family : {"tiny_qwen3_moe", "tiny_olmoe", "tiny_mixtral", "tiny_granitemoe"}) {
    for (const bool fused : {true, false}) {
      SCOPED_TRACE(family + (fused ? " fused" : " autograd"));
      const train::PassForm form = {.is_fused = fused};
      const Found cpu = run_pass(family, {}, form, at::kCPU), here = run_pass(family, {}, form, device());
      EXPECT_NEAR(here.facts.nll_sum / cpu.facts.nll_sum, 1.0, 1e-5);
      EXPECT_LT(gap(cpu.gradient, here.gradient), 1e-4);
    }
  }
}

// The relative difference of a gradient.
double off(const at::Tensor& exact, const at::Tensor& found) {
  return ((found - exact).norm() / exact.norm()).item<double>();
}

// Experts' products in groups, of a rank that they take and of one that they do not: their results are rounded twice where the
// CPU's are once. Rounding may choose another expert for a token, on both devices.
TEST(Passes, OfExpertsInGroupsAreAsNearAsTheirRoundings) {
  const model::DtypePolicy narrow{.linear = at::kBFloat16, .residual = at::kFloat};
  const ops::QuantScheme nf4{ops::QuantType::kNf4, false};
  for (const std::string family : {"tiny_qwen3_moe", "tiny_olmoe", "tiny_mixtral", "tiny_granitemoe"}) {
    for (const model::Quantize& quantize : {model::Quantize(), model::Quantize(nf4, true)}) {
      for (const std::int64_t rank : {8, 4}) {
        for (const auto recompute : {model::RecomputeLevel::kNone, model::RecomputeLevel::kLayer}) {
          SCOPED_TRACE(family + " rank " + std::to_string(rank));
          const train::PassForm form{.recompute = recompute};
          const Found exact = run_pass(family, {}, form, at::kCPU, quantize, rank),
                      cpu = run_pass(family, narrow, form, at::kCPU, quantize, rank);
          const UseCudaTable table;
          const Found here = run_pass(family, narrow, form, device(), quantize, rank);
          EXPECT_NEAR(here.facts.nll_sum / exact.facts.nll_sum, 1.0, 1e-3);
          EXPECT_LE(off(exact.gradient, here.gradient), 2 * off(exact.gradient, cpu.gradient));
        }
      }
    }
  }
}

// Codes of a checkpoint, and codes that are made as the model is read, of each scheme.
TEST(Passes, OfQuantizedBasesAreTheCpus) {
  using ops::QuantType;
  struct Row {
    std::string family;
    model::Quantize quantize = {};
  };
  const std::vector<Row> rows = {
      {"tiny_llama_nf4"},
      {"tiny_llama_int8"},
      {"tiny_llama", ops::QuantScheme{QuantType::kNf4, false}},
      {"tiny_llama", ops::QuantScheme{QuantType::kNf4, true}},
      {"tiny_llama", ops::QuantScheme{QuantType::kFp4, true}},
      {"tiny_llama", ops::QuantScheme{QuantType::kInt8, false}},
      {"tiny_qwen3_moe", ops::QuantScheme{QuantType::kNf4, true}},
  };
  for (const Row& row : rows) {
    for (const bool fused : {true, false}) {
      SCOPED_TRACE(row.family + (row.quantize ? " " + ops::describe(*row.quantize) : "") +
                   (fused ? " fused" : " autograd"));
      const train::PassForm form = {.is_fused = fused};
      const Found cpu = run_pass(row.family, {}, form, at::kCPU, row.quantize),
                  here = run_pass(row.family, {}, form, device(), row.quantize);
      EXPECT_NEAR(here.facts.nll_sum / cpu.facts.nll_sum, 1.0, 1e-5);
      EXPECT_LT(gap(cpu.gradient, here.gradient), 1e-4);
    }
  }
}

TEST(Passes, InBf16AreTheCpusToRounding) {
  const model::DtypePolicy dtypes{.linear = at::kBFloat16, .residual = at::kFloat};
  for (const char* family : {"tiny_llama", "tiny_qwen3"}) {
    const Found cpu = run_pass(family, dtypes, {}, at::kCPU), here = run_pass(family, dtypes, {}, device());
    EXPECT_NEAR(here.facts.nll_sum, cpu.facts.nll_sum, 1e-3 * cpu.facts.nll_sum) << family;
    EXPECT_LE(gap(cpu.gradient, here.gradient), 2e-2) << family;
  }
}

}  // namespace passes_test
}  // namespace hone::standin
