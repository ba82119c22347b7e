// Promise 3: the log-probability recorded while sampling is the one that the trainer recomputes: on
// the CPU bit for bit, at every level with kernels of ours, over lengths, batch compositions, plain and packed weights,
// and after updates; without such kernels within 1e-4 in fp32.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "adapters/lora.h"
#include "base/process/instruction_level.h"
#include "learn/adamw.h"
#include "model/files/weight_source.h"
#include "model/fused_pass.h"
#include "model/tiny_model.h"
#include "ops/head/linear_logprob.h"
#include "rollout/generate.h"

namespace hone::train {
namespace sampler_is_trainer_test {

using namespace hone::test_tools;
using Ids = std::vector<std::int64_t>;

struct Sampled {
  Ids ids;  // prompt and completion
  std::size_t prompt = 0;
  std::vector<float> logprobs;  // of the completion's tokens
};

class Setting {
 public:
  Setting(const std::string& family, model::DtypePolicy dtypes, model::Storage sampler_storage,
          bool wide = false, bool dora = false, std::optional<bool> tied_tokens = {}, bool below = false) {
    base::Json config = wide ? wide_config(family) : tiny_config(family);
    config["max_position_embeddings"] = 512;
    if (tied_tokens) config["tie_word_embeddings"] = *tied_tokens;
    write_model(folder_.path(), config);
    const auto source = model::open_weights(folder_.path());
    sampler_ = std::make_unique<model::CausalLm>(*source, dtypes, sampler_storage);
    trainer_ = std::make_unique<model::CausalLm>(*source, dtypes, model::Storage::kPlain);
    adapters::LoraConfig lora;
    lora.r = 4;
    // off while sampling and in the gap probe; a LoRA on experts has none
    const bool on_experts = without_experts(family).size() > 1 && !dora && !below;
    lora.dropout = on_experts ? 0 : 0.1;
    lora.target_modules = on_experts ? std::vector<std::string>{"all-linear"} : without_experts(family);
    lora.target_is_regex = lora.target_modules.size() == 1;
    lora.init = adapters::LoraInit::kFalse;
    lora.dora = dora;
    if (tied_tokens) lora.token_indices = {44, 3, 17, 30, 5};
    if (below) {
      const std::string first = (folder_.path() / "first").string();
      adapters::Adapter::attach(*trainer_, lora, 3).save(first);
      for (model::CausalLm* model : {sampler_.get(), trainer_.get()})
        adapters::attach_frozen(*model, {first});
    }
    sampler_adapter_ = adapters::Adapter::attach(*sampler_, lora, 7);
    trainer_adapter_ = adapters::Adapter::attach(*trainer_, lora, 7);
  }

  // Tokens from a rule instead of a draw: what is recorded is the same for any choice.
  std::vector<Sampled> sample(const std::vector<Ids>& prompts, std::size_t tokens, double temperature) {
    const at::NoGradGuard no_grad;
    std::vector<Sampled> out;
    std::vector<model::KvCache> caches(prompts.size());
    std::vector<model::KvCache*> pointers;
    std::vector<Ids> next = prompts;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      out.push_back({prompts[i], prompts[i].size(), {}});
      pointers.push_back(&caches[i]);
    }
    for (std::size_t step = 0; step < tokens; ++step) {
      const at::Tensor logits = sampler_->logits(sampler_->step(next, pointers, {}));
      Ids chosen;
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        chosen.push_back(3 +
                         static_cast<std::int64_t>((out[i].ids.back() * 7 + step * 5 + out[i].prompt) % 45));
      }
      const at::Tensor logprob = ops::logprob_of(logits, at::tensor(chosen, at::kLong), temperature).logprob;
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        out[i].logprobs.push_back(logprob[static_cast<std::int64_t>(i)].item<float>());
        out[i].ids.push_back(chosen[i]);
        next[i] = {chosen[i]};
      }
    }
    return out;
  }

  // The trainer's log-probabilities of every completion token, all rows in one packed batch.
  std::vector<float> train(const std::vector<Sampled>& rows, double temperature) {
    std::vector<Ids> segments;
    Ids scored, targets;
    std::int64_t begin = 0;
    for (const Sampled& row : rows) {
      segments.push_back(row.ids);
      for (std::size_t t = row.prompt; t < row.ids.size(); ++t) {
        scored.push_back(begin + static_cast<std::int64_t>(t) - 1);
        targets.push_back(row.ids[t]);
      }
      begin += static_cast<std::int64_t>(row.ids.size());
    }
    const data::Batch batch = make_batch(segments);
    const ops::PassContext context;
    model::FusedPass pass(*trainer_, batch, context);
    const at::Tensor hidden = pass.forward(at::tensor(scored, at::kLong), model::RecomputeLevel::kCheap);
    const auto own = trainer_->head_rows(true);
    const at::Tensor found = ops::linear_logprob(hidden, trainer_->head(), at::tensor(targets, at::kLong),
                                                 {.gradient = true,
                                                  .temperature = temperature,
                                                  .own = own ? &*own : nullptr,
                                                  .soft_cap = trainer_->config().logits_soft_cap})
                                 .logprob.contiguous();
    const float* p = found.const_data_ptr<float>();
    return {p, p + found.numel()};
  }

  // The same of rows that share prompts: neighbors with one prompt lie after one copy of it.
  std::vector<float> train_shared(std::span<const Sampled> rows, double temperature) {
    data::Batch batch;
    const auto place = [&batch](std::span<const std::int64_t> ids, std::int64_t position,
                                std::int64_t prefix) {
      const auto begin = static_cast<std::int64_t>(batch.ids.size());
      batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
      for (std::size_t i = 0; i < ids.size(); ++i) batch.positions.push_back(position++);
      batch.segments.push_back({begin, static_cast<std::int64_t>(batch.ids.size()), 0, prefix});
      return begin;
    };
    Ids scored, targets;
    std::int64_t prefix = data::kNoPrefix;
    Ids last;
    for (const Sampled& row : rows) {
      const std::span<const std::int64_t> all(row.ids);
      const auto prompt = all.first(row.prompt), completion = all.subspan(row.prompt);
      if (prefix == data::kNoPrefix || !std::equal(prompt.begin(), prompt.end(), last.begin(), last.end())) {
        prefix = static_cast<std::int64_t>(batch.segments.size());
        place(prompt, 0, data::kNoPrefix);
        last.assign(prompt.begin(), prompt.end());
      }
      const std::int64_t before = batch.segments[static_cast<std::size_t>(prefix)].end - 1;
      const std::int64_t begin = place(completion, static_cast<std::int64_t>(row.prompt), prefix);
      for (std::size_t t = 0; t < completion.size(); ++t) {
        scored.push_back(t == 0 ? before : begin + static_cast<std::int64_t>(t) - 1);
        targets.push_back(completion[t]);
      }
    }
    const ops::PassContext context;
    model::FusedPass pass(*trainer_, batch, context);
    const at::Tensor hidden = pass.forward(at::tensor(scored, at::kLong), model::RecomputeLevel::kCheap);
    const auto own = trainer_->head_rows(true);
    const at::Tensor found = ops::linear_logprob(hidden, trainer_->head(), at::tensor(targets, at::kLong),
                                                 {.gradient = true,
                                                  .temperature = temperature,
                                                  .own = own ? &*own : nullptr,
                                                  .soft_cap = trainer_->config().logits_soft_cap})
                                 .logprob.contiguous();
    const float* p = found.const_data_ptr<float>();
    return {p, p + found.numel()};
  }

  // The same step of AdamW on both.
  void update() {
    for (auto* adapter : {&*sampler_adapter_, &*trainer_adapter_}) {
      auto state = learn::AdamWState::zeros_like(adapter->flat());
      learn::adamw_step(adapter->flat(), at::sin(at::arange(adapter->flat().numel())), state, {}, 0.05);
    }
  }
  void update_trainer_alone() { trainer_adapter_->flat().mul_(1.01); }
  const model::CausalLm& sampler() const { return *sampler_; }

 private:
  TempFolder folder_;
  std::unique_ptr<model::CausalLm> sampler_, trainer_;
  std::optional<adapters::Adapter> sampler_adapter_, trainer_adapter_;
};

Ids prompt(std::int64_t length, std::int64_t salt) {
  Ids ids;
  for (std::int64_t i = 0; i < length; ++i) ids.push_back(3 + (i * i + i * salt + salt) % 45);
  return ids;
}

// The largest |recorded - recomputed|; 0 is bit for bit. What is not finite is a failure.
double gap(const std::vector<Sampled>& sampled, const std::vector<float>& trained) {
  double worst = 0;
  std::size_t at = 0;
  for (const Sampled& row : sampled) {
    for (const float recorded : row.logprobs) {
      const double difference = std::abs(double(recorded) - trained.at(at++));
      EXPECT_TRUE(std::isfinite(recorded) && std::isfinite(difference));
      worst = std::max(worst, difference);
    }
  }
  EXPECT_EQ(at, trained.size());
  return worst;
}

double gap(Setting& s, const std::vector<Ids>& prompts, std::size_t tokens, double temperature) {
  const auto sampled = s.sample(prompts, tokens, temperature);
  const auto trained = s.train(sampled, temperature);
  return gap(sampled, trained);
}

const std::vector<std::vector<Ids>> kCompositions = {
    {prompt(1, 1)},
    {prompt(5, 2)},
    {prompt(63, 3), prompt(2, 4)},
    {prompt(64, 5), prompt(65, 6), prompt(7, 7)},
    {prompt(130, 8), prompt(3, 9), prompt(31, 10), prompt(64, 11), prompt(12, 12), prompt(1, 13),
     prompt(99, 14)},
};

// Each family at each level with kernels of ours.
class SamplerIsTrainerOf : public ::testing::TestWithParam<std::tuple<const char*, base::InstructionLevel>> {
 protected:
  void SetUp() override {
    const base::InstructionLevel level = std::get<1>(GetParam());
    if (!base::machine_has(level)) GTEST_SKIP() << "this machine has no " << base::name_of(level);
    force_.emplace(level);
  }
  static const char* family() { return std::get<0>(GetParam()); }

 private:
  std::optional<base::ForceInstructionLevel> force_;
};
std::string name_of(const ::testing::TestParamInfo<std::tuple<const char*, base::InstructionLevel>>& one) {
  return std::string(std::get<0>(one.param)) + "_" + base::name_of(std::get<1>(one.param));
}

const auto kLevels = ::testing::Values(base::InstructionLevel::kAvx2, base::InstructionLevel::kAvx512,
                                       base::InstructionLevel::kAvx512Bf16, base::InstructionLevel::kAmx);
INSTANTIATE_TEST_SUITE_P(Families, SamplerIsTrainerOf,
                         ::testing::Combine(::testing::ValuesIn(families_unlike_others()), kLevels), name_of);
INSTANTIATE_TEST_SUITE_P(SlowFamilies, SamplerIsTrainerOf,
                         ::testing::Combine(::testing::ValuesIn(families_like_others()), kLevels), name_of);

TEST_P(SamplerIsTrainerOf, RecordsTheTrainersBitsInBf16) {
  for (const model::Storage storage : {model::Storage::kPlain, model::Storage::kPacked}) {
    for (const at::ScalarType residual : {at::kBFloat16, at::kFloat}) {
      Setting s(family(), {at::kBFloat16, residual}, storage, storage == model::Storage::kPacked);
      for (const auto& prompts : kCompositions) {
        EXPECT_EQ(gap(s, prompts, 9, 1.0), 0.0) << prompts.size() << " prompts";
      }
      EXPECT_EQ(gap(s, kCompositions[3], 70, 0.7), 0.0);
      s.update();
      EXPECT_EQ(gap(s, kCompositions[4], 5, 1.3), 0.0) << "after an update";
    }
  }
}

TEST_P(SamplerIsTrainerOf, RecordsTheTrainersBitsWithDora) {
  Setting s(family(), {at::kBFloat16, at::kBFloat16}, model::Storage::kPacked, true, /*dora=*/true);
  EXPECT_EQ(gap(s, kCompositions[4], 9, 1.0), 0.0);
  s.update();
  EXPECT_EQ(gap(s, kCompositions[3], 9, 1.0), 0.0) << "after an update";
  s.update_trainer_alone();
  EXPECT_GT(gap(s, kCompositions[3], 9, 1.0), 0.0);
}

// Rows of the embedding, and of a tied head, that the adapter trains.
TEST_P(SamplerIsTrainerOf, RecordsTheTrainersBitsWithTrainedTokens) {
  for (const bool tied : {true, false}) {
    for (const at::ScalarType residual : {at::kBFloat16, at::kFloat}) {
      Setting s(family(), {at::kBFloat16, residual}, model::Storage::kPacked, true, false, tied);
      s.update();
      for (const auto& prompts : kCompositions) EXPECT_EQ(gap(s, prompts, 9, 1.0), 0.0) << prompts.size();
      EXPECT_EQ(gap(s, kCompositions[3], 70, 0.7), 0.0);
    }
  }
}

TEST_P(SamplerIsTrainerOf, RecordsTheTrainersBitsAboveAFrozenAdapter) {
  for (const model::Storage storage : {model::Storage::kPlain, model::Storage::kPacked}) {
    Setting s(family(), {at::kBFloat16, at::kBFloat16}, storage, true, /*dora=*/false, /*tied_tokens=*/{},
              /*below=*/true);
    EXPECT_EQ(gap(s, kCompositions[4], 9, 1.0), 0.0);
    s.update();
    EXPECT_EQ(gap(s, kCompositions[3], 9, 1.0), 0.0) << "after an update";
    s.update_trainer_alone();
    EXPECT_GT(gap(s, kCompositions[3], 9, 1.0), 0.0);
  }
}

TEST_P(SamplerIsTrainerOf, RecordsTheTrainersBitsInFp32) {
  Setting s(family(), {at::kFloat, at::kFloat}, model::Storage::kPacked);
  for (const auto& prompts : kCompositions)
    EXPECT_EQ(gap(s, prompts, 9, 0.9), 0.0) << prompts.size() << " prompts";
  s.update();
  EXPECT_EQ(gap(s, kCompositions[4], 9, 1.0), 0.0) << "after an update";
}

// libtorch's products, which promise no bits.
TEST(SamplerIsTrainer, RecordsTheTrainersNumbersWithoutKernels) {
  const base::ForceInstructionLevel force(base::InstructionLevel::kPlain);
  Setting s("llama", {at::kFloat, at::kFloat}, model::Storage::kPacked);
  const double worst = gap(s, kCompositions[4], 9, 0.9);
  EXPECT_LT(worst, 1e-4);
  std::cout << "[margin] sampler and trainer in fp32: " << worst << " of 1e-4\n";
}

// The rollouts of the product: samples share a prompt that is read in pieces, sequences leave and enter the
// batch.
TEST_P(SamplerIsTrainerOf, RecordsTheTrainersBitsInRollouts) {
  for (const bool wide : {false, true}) {
    Setting s(family(), {at::kBFloat16, at::kBFloat16}, model::Storage::kPacked, wide);
    std::vector<std::vector<std::int32_t>> prompts;
    for (const std::int64_t length : {70, 3, 129, 17}) {
      const Ids ids = prompt(length, length);
      prompts.emplace_back(ids.begin(), ids.end());
    }
    rollout::GenerateOptions options;
    options.max_new_tokens = 12;
    options.sampler.temperature = 0.8;
    options.sampler.top_k = 20;  // filters come after what is recorded
    options.samples = 3;
    options.batch_size = 2;
    options.prefill_tokens = 16;
    options.stop_ids = {5, 6, 7};  // completions end at different lengths
    const auto completions = rollout::generate(s.sampler(), prompts, options);
    std::vector<Sampled> sampled;
    for (std::size_t i = 0; i < completions.size(); ++i) {
      const auto& from = prompts[i / 3];
      Sampled row{{from.begin(), from.end()}, from.size(), completions[i].logprobs};
      row.ids.insert(row.ids.end(), completions[i].ids.begin(), completions[i].ids.end());
      sampled.push_back(std::move(row));
    }
    EXPECT_EQ(gap(sampled, s.train(sampled, 0.8)), 0.0) << (wide ? "wide" : "tiny");
  }
}

// Samples that read their prompt in place, and a training pass that does so too, however the rollouts are
// cut into micro-batches.
TEST_P(SamplerIsTrainerOf, RecordsTheTrainersBitsWithSharedPrompts) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
    Setting s(family(), {dtype, dtype}, model::Storage::kPacked, /*wide=*/true);
    s.update();
    std::vector<std::vector<std::int32_t>> prompts;
    for (const std::int64_t length : {70, 3, 129, 64}) {
      const Ids ids = prompt(length, length);
      prompts.emplace_back(ids.begin(), ids.end());
    }
    rollout::GenerateOptions options;
    options.max_new_tokens = 80;
    options.sampler.temperature = 0.8;
    options.samples = 4;
    options.batch_size = 7;
    options.prefill_tokens = 100;
    options.share_prompt = true;
    for (std::int64_t id = 0; id < 2500; id += 40) options.stop_ids.push_back(id);
    const auto completions = rollout::generate(s.sampler(), prompts, options);
    std::vector<Sampled> sampled;
    for (std::size_t i = 0; i < completions.size(); ++i) {
      const auto& from = prompts[i / 4];
      Sampled row{{from.begin(), from.end()}, from.size(), completions[i].logprobs};
      row.ids.insert(row.ids.end(), completions[i].ids.begin(), completions[i].ids.end());
      sampled.push_back(std::move(row));
    }
    for (const std::size_t rows : {16, 4, 3, 1}) {  // of a micro-batch
      double worst = 0;
      for (std::size_t i = 0; i < sampled.size(); i += rows) {
        const std::span<const Sampled> part(sampled.begin() + static_cast<std::ptrdiff_t>(i),
                                            std::min(rows, sampled.size() - i));
        worst = std::max(worst, gap({part.begin(), part.end()}, s.train_shared(part, 0.8)));
      }
      EXPECT_EQ(worst, 0.0) << dtype << ", " << rows << " rows";
    }
  }
}

// The test above can fail: a model that was not updated differs.
TEST(SamplerIsTrainer, IsNotSoByItself) {
  Setting s("llama", {at::kBFloat16, at::kBFloat16}, model::Storage::kPlain);
  const auto sampled = s.sample(kCompositions[2], 9, 1.0);
  s.update_trainer_alone();
  const auto trained = s.train(sampled, 1.0);
  EXPECT_NE(sampled[0].logprobs[3], trained[3]);
}

}  // namespace sampler_is_trainer_test
}  // namespace hone::train
