// The sampler's kernel in the emulator against the CPU's sampler, from equal logits.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "emulated/machine/emulator.h"
#include "emulated/own_checks.h"
#include "emulated/use_kernels.h"
#include "ops/head/linear_logprob.h"
#include "rollout/device_sampler.h"
#include "rollout/sampler.h"
#include "rollout/scores.h"

namespace hone::emulated {
namespace sampler_test {

using rollout::DeviceSampler;
using rollout::DrawKey;
using rollout::FinishReason;
using rollout::RequestOptions;
using Random = std::mt19937;

constexpr std::int64_t kRows = 6, kSteps = 5;

std::int64_t below(Random& random, std::int64_t end) {
  return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random);
}

// Every filter alone and with others, near their limits too.
RequestOptions options_of(Random& random, std::int64_t vocabulary) {
  constexpr std::array kTemperatures = {1.0, 0.7, 0.05, 1.9, 0.0, 1e-6};
  constexpr std::array kTopP = {1.0, 1.0, 0.9, 0.5, 0.05, 0.0, 0.999999};
  constexpr std::array kMinP = {0.0, 0.0, 0.05, 0.5, 1.0, 1e-30};
  constexpr std::array kPenalties = {1.0, 1.0, 1.2, 0.5, 3.0};
  const std::array top_k = {std::int64_t{0}, std::int64_t{0}, std::int64_t{1}, std::int64_t{5},
                            vocabulary / 2,  vocabulary,      vocabulary + 1};
  const auto pick = [&](const auto& list) {
    return list[static_cast<std::size_t>(below(random, static_cast<std::int64_t>(list.size())))];
  };
  RequestOptions out;
  out.max_new_tokens = 1 + below(random, kSteps + 1);
  out.sampler = {.temperature = pick(kTemperatures),
                 .top_k = pick(top_k),
                 .top_p = pick(kTopP),
                 .min_p = pick(kMinP),
                 .repetition_penalty = pick(kPenalties)};
  out.seed = (std::uint64_t{random()} << 32U) + random();
  out.step = random();
  for (std::int64_t i = below(random, 4); i > 0; --i) out.stop_ids.push_back(below(random, vocabulary));
  out.min_new_tokens = vocabulary > 4 ? below(random, 4) : 0;
  return out;
}

// Spread and flat ones, whole numbers, of which many are equal, and a few far above the others.
std::vector<float> logits_of(Random& random, std::int64_t vocabulary) {
  const std::int64_t kind = below(random, 5);
  std::normal_distribution<float> normal(0, kind == 0 ? 0.01F : 3.0F);
  std::vector<float> out;
  for (std::int64_t i = 0; i < vocabulary; ++i) {
    float x = normal(random);
    if (kind == 1) x = std::round(x);
    if (kind == 2) x = below(random, 50) == 0 ? x + 20 : x - 90;
    if (kind == 3) x = -0.0F;
    out.push_back(x);
  }
  return out;
}

// A row as the host has it.
struct HostRow {
  RequestOptions options;
  DrawKey key;
  std::vector<std::int32_t> ids;
  std::int64_t drawn = 0;
  bool goes_on = true;

  std::vector<float> scores(const std::vector<float>& logits) const {
    std::vector<float> out = logits;
    std::vector<std::int32_t> seen = ids;
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    if (options.sampler.repetition_penalty != 1)
      rollout::penalize(out, seen, options.sampler.repetition_penalty);
    if (drawn < options.min_new_tokens) rollout::forbid(out, options.stop_ids);
    return out;
  }
  double uniform() const {
    return rollout::sampling_uniform(options.seed, options.step, key.prompt, key.sample,
                                     key.position + static_cast<std::uint64_t>(drawn));
  }
};

// Whether `id` is drawn where a sum differs by 1e-12 of the whole.
bool is_near(const HostRow& row, const std::vector<float>& scores, std::int64_t id) {
  rollout::Sampler sampler;
  for (const double top_p : {-1e-12, 0.0, 1e-12}) {
    for (const double uniform : {-1e-12, 0.0, 1e-12}) {
      rollout::SamplerOptions options = row.options.sampler;
      if (options.top_p < 1) options.top_p = std::max(0.0, options.top_p + top_p);
      if (sampler.draw(scores, options, std::clamp(row.uniform() + uniform, 0.0, 1.0 - 0x1p-53)).id == id)
        return true;
    }
  }
  return false;
}

std::string differs(const char* what, double found, double expected, double bound) {
  if (std::abs(found - expected) <= bound * std::max(1.0, std::abs(expected))) return "";
  return std::string(what) + " is " + std::to_string(found) + ", the CPU's " + std::to_string(expected);
}

// What is wrong with a row's token. `near` counts those that differ as they may.
std::string wrong_token(const HostRow& row, const std::vector<float>& logits,
                        const DeviceSampler::Token& token, std::int64_t& near) {
  const std::vector<float> scores = row.scores(logits);
  const auto& options = row.options;
  rollout::Sampler sampler;
  const rollout::Draw draw = sampler.draw(scores, options.sampler, row.uniform());
  const bool same = draw.id == token.id;
  if (!same && !is_near(row, scores, token.id))
    return "id " + std::to_string(token.id) + ", the CPU's " + std::to_string(draw.id);
  near += same ? 0 : 1;
  const auto& stops = options.stop_ids;
  const bool stopped = std::find(stops.begin(), stops.end(), token.id) != stops.end();
  const bool full = row.drawn + 1 >= options.max_new_tokens;
  const auto ended = stopped ? std::optional(FinishReason::kStopToken)
                     : full  ? std::optional(FinishReason::kLength)
                             : std::nullopt;
  if (token.ended != ended) return "it ended, or did not";
  const double temperature = options.sampler.temperature > 0 ? options.sampler.temperature : 1;
  const at::Tensor rows = at::tensor(logits).unsqueeze(0);
  const auto facts = ops::logprob_of(rows, at::full({1}, token.id, at::kLong), temperature);
  std::string wrong = same ? differs("sampled logprob", token.sampled_logprob, draw.logprob, 1e-6) : "";
  if (wrong.empty()) wrong = differs("logprob", token.logprob, facts.logprob.item<float>(), 1e-5);
  if (wrong.empty()) wrong = differs("entropy", token.entropy, facts.entropy.item<float>(), 2e-5);
  return wrong;
}

std::string told(const HostRow& row, std::int64_t vocabulary, const std::string& wrong) {
  const auto& s = row.options.sampler;
  return wrong + "; token " + std::to_string(row.drawn) + " of " + std::to_string(vocabulary) +
         ", temperature " + std::to_string(s.temperature) + ", top_k " + std::to_string(s.top_k) +
         ", top_p " + std::to_string(s.top_p) + ", min_p " + std::to_string(s.min_p) + ", penalty " +
         std::to_string(s.repetition_penalty);
}

// Some rows begin, and draw until all have ended or the steps are over.
class Batch {
 public:
  Batch(Random& random, std::int64_t vocabulary)
      : random_(random), vocabulary_(vocabulary), sampler_(kRows, vocabulary, at::kCPU) {
    for (std::int64_t i = 0; i < kRows; ++i) {
      HostRow row{
          .options = options_of(random, vocabulary),
          .key = {
              .prompt = random(), .sample = random() % 65536U, .position = std::uint64_t{random()} << 7U}};
      for (std::int64_t n = below(random, 40); n > 0; --n)
        row.ids.push_back(static_cast<std::int32_t>(below(random, vocabulary + 2) - 1));  // and some outside
      row.drawn = below(random, 2) * std::min<std::int64_t>(row.options.max_new_tokens - 1, 3);
      sampler_.begin(i, row.options, row.key, row.ids, row.drawn);
      rows_.push_back(row);
    }
  }

  std::string step(std::int64_t& draws, std::int64_t& near) {
    std::vector<std::vector<float>> logits;
    at::Tensor all = at::full({kRows, vocabulary_ + 3}, std::nan(""));
    for (std::int64_t i = 0; i < kRows; ++i) {
      logits.push_back(logits_of(random_, vocabulary_));
      all.select(0, i).narrow(0, 0, vocabulary_).copy_(at::tensor(logits.back()));
    }
    if (!sampler_.step(all.narrow(1, 0, vocabulary_))) return "there is no kernel";
    const auto tokens = sampler_.tokens();
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      HostRow& row = rows_[i];
      if (!row.goes_on && tokens[i].id != row.ids.back())
        return told(row, vocabulary_, "an ended row has a token");
      if (!row.goes_on) continue;
      ++draws;
      if (!tokens[i].is_finite) return told(row, vocabulary_, "its logits were called infinite");
      const std::string wrong = wrong_token(row, logits[i], tokens[i], near);
      if (!wrong.empty()) return told(row, vocabulary_, wrong);
      row.ids.push_back(tokens[i].id);
      ++row.drawn;
      row.goes_on = !tokens[i].ended;
    }
    return "";
  }

 private:
  Random& random_;
  std::int64_t vocabulary_;
  DeviceSampler sampler_;
  std::vector<HostRow> rows_;
};

void expect_the_cpus_tokens(std::int64_t draws) {
  const UseKernels use(emulated_kernels());
  EXPECT_EQ(wrong_tokens(draws), "");
}

}  // namespace sampler_test

std::string wrong_tokens(std::int64_t draws) {
  using namespace sampler_test;
  constexpr std::array<std::int64_t, 7> kVocabularies = {1, 3, 64, 65, 300, 1000, 2049};
  // All warps of a block of few threads; blocks of many; threads that have several sums each.
  constexpr std::array<std::int64_t, 4> kRare = {8192, 8257, 8192, 70001};
  Random random(11);  // NOLINT(bugprone-random-generator-seed): the same each time
  std::int64_t done = 0, near = 0;
  for (std::size_t turn = 0; done < draws; ++turn) {
    const bool is_rare = turn % 16 == 15;
    const std::int64_t vocabulary =
        is_rare ? kRare[turn / 16 % kRare.size()] : kVocabularies[turn % kVocabularies.size()];
    set_schedule(kSchedules[(turn + turn / 64) % std::size(kSchedules)]);
    Batch batch(random, vocabulary);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const std::string wrong = batch.step(done, near);
      if (!wrong.empty()) return wrong;
    }
  }
  return near <= draws / 10000 ? "" : std::to_string(near) + " of " + std::to_string(done) + " ids differ";
}

namespace sampler_test {

TEST(EmulatedSampler, DrawsTheCpusTokens) {
  expect_the_cpus_tokens(3000);
}

TEST(EmulatedSampler, DrawsTheCpusTokensManyTimesSlow) {
  expect_the_cpus_tokens(100000);
}

TEST(EmulatedSampler, SaysWhereLogitsAreNotFiniteAndLeavesRowsThatDoNotGoOn) {
  const UseKernels use(emulated_kernels());
  DeviceSampler sampler(4, 100, at::kCPU);
  at::Tensor logits = at::zeros({4, 100});
  logits[0][99] = NAN;
  logits[1][3] = -INFINITY;
  logits[3][7] = 5;
  for (const std::int64_t row : {0, 1, 3}) sampler.begin(row, {.max_new_tokens = 2}, {}, {});
  ASSERT_TRUE(sampler.step(logits));
  const auto first = sampler.tokens();
  EXPECT_FALSE(first[0].is_finite);
  EXPECT_EQ(first[0].id, 0) << "a row of the embedding";
  EXPECT_FALSE(first[1].is_finite);
  EXPECT_EQ(first[2].id, 0);
  EXPECT_EQ(first[3].id, 7);
  EXPECT_FALSE(first[3].ended);
  logits[3][8] = 6;
  sampler.step(logits);
  EXPECT_EQ(sampler.tokens()[3].id, 8);
  EXPECT_EQ(sampler.tokens()[3].ended, FinishReason::kLength);
  logits[3][9] = 7;
  sampler.step(logits);  // it has ended
  EXPECT_EQ(sampler.tokens()[3].id, 8);
}

TEST(DeviceSampler, HasNoTokenWithoutAKernel) {
  DeviceSampler sampler(1, 10, at::kCPU);
  sampler.begin(0, {}, {}, {});
  EXPECT_FALSE(sampler.step(at::zeros({1, 10})));
  EXPECT_FALSE(DeviceSampler::takes({.constrain = [](auto, auto) {}}));
}

}  // namespace sampler_test
}  // namespace hone::emulated
