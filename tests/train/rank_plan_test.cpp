#include "train/facts/rank_plan.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <numeric>

#include "parallel/bins.h"
#include "parallel/thread_ranks.h"
#include "train/loop/shared_work.h"

namespace hone::train {
namespace rank_plan_test {

using config::LayerForm;
using config::RecomputeMode;

MemoryInputs small() {
  MemoryInputs in;
  in.model.vocab_size = 50000;
  in.model.hidden_size = 512;
  in.model.intermediate_size = 2048;
  in.model.num_hidden_layers = 8;
  in.model.num_attention_heads = 8;
  in.model.num_key_value_heads = 8;
  in.model.head_dim = 64;
  in.program_bytes = 200'000'000;
  in.base_bytes = 100'000'000;
  for (std::int64_t layer = 0; layer < 8; ++layer) {
    in.adapted.push_back({.layer = layer, .in = 512, .out = 512, .rank = 16});
    in.adapter_parameters += 16 * 1024;
  }
  in.train = {.tokens = 4096, .scored = 4000, .segment = 1024};
  in.threads = 8;
  return in;
}

RankWork even_work() {
  return {.micro_batches = std::vector<std::int64_t>(512, 100),
          .accumulation = 2,
          .parameters = 131'072,
          .facts_bytes = 136};
}

RankSpeed speed() {
  return {.serial = 1e-5, .divided = 1e-3, .optimizer = 1e-3};
}

std::vector<std::int64_t> sent_by(int ranks, const std::function<void(parallel::Ranks&)>& body) {
  std::vector<std::int64_t> sent;
  for (const std::string& error : parallel::thread_ranks::run(ranks, body, std::chrono::seconds(20), &sent))
    EXPECT_EQ(error, "");
  return sent;
}

// ---- bytes

TEST(RankPlan, ASumSendsWhatIsSaid) {
  for (const int ranks : {2, 3, 5, 8}) {
    for (const std::int64_t elements : {std::int64_t{7}, std::int64_t{1000}, std::int64_t{70'001}}) {
      const auto sent =
          sent_by(ranks, [&](parallel::Ranks& all) { all.sum(at::ones({elements}), "gradients"); });
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(sum_bytes(elements, ranks, rank), sent[static_cast<std::size_t>(rank)])
            << ranks << " ranks, rank " << rank << ", " << elements;
    }
  }
}

TEST(RankPlan, AGatherSendsWhatIsSaid) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{192}, std::size_t{193}, std::size_t{5000}}) {
    const auto sent = sent_by(4, [&](parallel::Ranks& all) { all.gather(std::string(bytes, 'x'), "facts"); });
    EXPECT_EQ(gather_bytes(static_cast<std::int64_t>(bytes), 4), sent[2]) << bytes;
  }
}

// A step as the loop makes it: micro-batches in bins with their facts, the gradients' sum, agreement.
TEST(RankPlan, AStepSendsWhatIsForecast) {
  using Facts = std::vector<double>;
  for (const int ranks : {2, 4, 8}) {
    const RankWork work = even_work();
    const Costs costs(static_cast<std::size_t>(work.accumulation * ranks), 100);
    const auto sent = sent_by(ranks, [&](parallel::Ranks& all) {
      const at::Tensor gradient = at::zeros({work.parameters});
      SharedWork shared(all, gradient, parallel::BinSums::Order::kTree);
      shared.add_gradients<Facts>(costs, [&](std::size_t) {
        gradient.add_(1);
        return Facts(16, 1.0);  // and their number: 136 bytes
      });
      all.agree(std::array<std::int64_t, 5>{}, "stop");
      EXPECT_EQ(gradient[0].item<float>(), static_cast<float>(costs.size()));
    });
    const double total = static_cast<double>(std::accumulate(sent.begin(), sent.end(), std::int64_t{0}));
    const RankForecast found = forecast(work, {.per_host = ranks, .cores = 8}, speed());
    EXPECT_DOUBLE_EQ(found.bytes_of_rank, total / ranks) << ranks;
  }
}

// ---- seconds

TEST(RankPlan, OneProcessSendsNothingAndLosesNothing) {
  const RankForecast one = forecast(even_work(), {.cores = 8}, speed());
  EXPECT_EQ(one.bytes_of_rank, 0);
  EXPECT_EQ(one.communication, 0);
  EXPECT_EQ(one.imbalance, 0);
  EXPECT_DOUBLE_EQ(one.tokens, 200);
  EXPECT_DOUBLE_EQ(one.seconds(), 200 * (1e-5 + 1e-3 / 8) + 1e-3);
  EXPECT_DOUBLE_EQ(one.efficiency, 1);
}

TEST(RankPlan, TheMostTokensOfARankAreWaitedFor) {
  RankWork work = even_work();
  work.micro_batches = {400, 100, 100, 100};
  const RankForecast two = forecast(work, {.per_host = 2, .cores = 2}, speed());
  const double token = 1e-5 + 1e-3;
  EXPECT_DOUBLE_EQ(two.compute, 350 * token);
  EXPECT_NEAR(two.imbalance, 50 * token, 1e-12);
}

TEST(RankPlan, MoreHostsSendMoreAndWaitLonger) {
  RankForecast before = forecast(even_work(), {.hosts = 1, .cores = 8}, speed());
  for (const std::int64_t hosts : {2, 4, 16, 64, 256}) {
    const RankForecast now = forecast(even_work(), {.hosts = hosts, .cores = 8}, speed());
    EXPECT_GT(now.bytes_of_rank, before.bytes_of_rank) << hosts;
    EXPECT_GT(now.communication, before.communication) << hosts;
    EXPECT_LT(now.efficiency, before.efficiency) << hosts;
    EXPECT_DOUBLE_EQ(now.network_of_host, now.bytes_of_rank) << hosts;
    EXPECT_DOUBLE_EQ(now.tokens, std::min<double>(512 * 100, 200.0 * static_cast<double>(hosts)));
    before = now;
  }
}

TEST(RankPlan, OnlyOtherHostsNeedTheNetwork) {
  RankSpeed slow = speed();
  slow.network_bandwidth = 1;
  slow.network_latency = 1;
  const RankSetting one_host{.per_host = 8, .cores = 8}, two_hosts{.hosts = 2, .per_host = 4, .cores = 8};
  EXPECT_EQ(forecast(even_work(), one_host, slow).network_of_host, 0);
  EXPECT_EQ(forecast(even_work(), one_host, slow).seconds(),
            forecast(even_work(), one_host, speed()).seconds());
  EXPECT_GT(forecast(even_work(), two_hosts, slow).communication, 1);
}

TEST(RankPlan, MoreRanksThanProcessorsTakeTurns) {
  const RankForecast two = forecast(even_work(), {.per_host = 2, .cores = 2}, speed());
  const RankForecast eight = forecast(even_work(), {.per_host = 8, .cores = 2}, speed());
  EXPECT_DOUBLE_EQ(eight.compute, 4 * two.compute);
  EXPECT_LE(eight.efficiency, two.efficiency);
}

TEST(RankPlan, TheOptionThreadsCountsOnEveryNumberOfRanks) {
  const RankSetting one{.cores = 4, .set_threads = 1}, four{.per_host = 4, .cores = 4, .set_threads = 1};
  EXPECT_DOUBLE_EQ(forecast(even_work(), one, speed()).compute, 200 * (1e-5 + 1e-3));
  EXPECT_DOUBLE_EQ(forecast(even_work(), four, speed()).compute, 200 * (1e-5 + 1e-3));
  EXPECT_GT(forecast(even_work(), four, speed()).efficiency, 3.5);
  const RankSetting crowded{.per_host = 4, .cores = 4, .set_threads = 4};
  EXPECT_DOUBLE_EQ(forecast(even_work(), crowded, speed()).compute, 200 * 4 * (1e-5 + 1e-3 / 4));
}

// ---- memory

TEST(RankPlan, TheMemoryOfOneRankIsThePlanOfTheRun) {
  const MemoryPlan own = plan_memory(small(), LayerForm::kAuto, RecomputeMode::kAuto, {});
  const RankMemory one = rank_memory(small(), even_work(), {.cores = 8}, RecomputeMode::kAuto, 0);
  EXPECT_EQ(one.plan.total, own.total);
  EXPECT_EQ(one.host, own.total);
  ASSERT_EQ(one.plan.segments.size(), own.segments.size());
  for (std::size_t i = 0; i < own.segments.size(); ++i)
    EXPECT_EQ(one.plan.segments[i].bytes, own.segments[i].bytes) << own.segments[i].name;
}

TEST(RankPlan, ARankHasThePlanOfAllMicroBatchesAndItsSums) {
  const RankWork work = even_work();
  MemoryInputs all = small();
  all.accumulation = 2 * 4;
  all.threads = 2;
  all.gradient_copies = 1;  // two bins a rank
  const MemoryPlan own = plan_memory(all, LayerForm::kAuto, RecomputeMode::kAuto, {});
  const RankMemory four = rank_memory(small(), work, {.per_host = 4, .cores = 8}, RecomputeMode::kAuto, 0);
  ASSERT_EQ(four.plan.segments.back().name, "sums of ranks");
  const std::int64_t sums = work.parameters / 4 * 3 * 4;
  EXPECT_EQ(four.plan.segments.back().bytes, sums);
  EXPECT_EQ(four.plan.total, own.total + sums);
  EXPECT_EQ(four.host, 4 * four.plan.total - 3 * small().base_bytes);
}

TEST(RankPlan, RanksOfAHostShareItsMemory) {
  const std::int64_t none =
      rank_memory(small(), even_work(), {.per_host = 4, .cores = 8}, RecomputeMode::kNone, 0).host;
  const RankMemory less =
      rank_memory(small(), even_work(), {.per_host = 4, .cores = 8}, RecomputeMode::kAuto, none - 8);
  EXPECT_TRUE(less.fits());
  EXPECT_NE(less.plan.recompute, RecomputeMode::kNone);
  const RankMemory least =
      rank_memory(small(), even_work(), {.per_host = 4, .cores = 8}, RecomputeMode::kAuto, 1'000'000);
  EXPECT_FALSE(least.fits());
  EXPECT_EQ(least.plan.recompute, RecomputeMode::kLayer);
}

Choices choices() {
  return {.full_moments = false,
          .batches = {{2, {.tokens = 2048, .scored = 2000, .segment = 1024}},
                      {1, {.tokens = 1024, .scored = 1000, .segment = 1024}}},
          .quantized_base = 30'000'000};
}

TEST(RankPlan, TheFirstChangeThatFitsIsTheCheapest) {
  const RankSetting two{.per_host = 2, .cores = 8};
  const auto of = [&](RecomputeMode level, std::int64_t tokens) {
    MemoryInputs in = small();
    in.train.tokens = tokens;
    in.train.scored = tokens - tokens / 50;
    return rank_memory(in, even_work(), two, level, 0).host;
  };
  Choices set = choices();
  set.recompute = RecomputeMode::kNone;
  const auto level = cheapest_that_fits(small(), even_work(), two, set, of(RecomputeMode::kLayer, 4096));
  ASSERT_TRUE(level);
  EXPECT_EQ(level->options, std::vector<std::string>{"recompute: layer"});

  const std::int64_t below = of(RecomputeMode::kLayer, 4096) - (1 << 20);
  const auto batch = cheapest_that_fits(small(), even_work(), two, choices(), below);
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->options,
            (std::vector<std::string>{"per_device_train_batch_size: 2", "gradient_accumulation_steps: 4"}));
  EXPECT_LE(batch->memory.host, below);
  EXPECT_FALSE(cheapest_that_fits(small(), even_work(), two, choices(), 1'000'000));
}

TEST(RankPlan, AQuantizedBaseIsTheLastChange) {
  Choices only = choices();
  only.batches.clear();
  only.full_moments = true;  // which would not be enough, and are not needed
  const RankSetting two{.per_host = 2, .cores = 8};
  const std::int64_t below =
      rank_memory(small(), even_work(), two, RecomputeMode::kLayer, 0).host - 60'000'000;
  const auto found = cheapest_that_fits(small(), even_work(), two, only, below);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->options, std::vector<std::string>{"load_in_4bit: true"});
}

}  // namespace rank_plan_test
}  // namespace hone::train
