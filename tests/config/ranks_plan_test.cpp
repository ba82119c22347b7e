// hone plan: numbers of ranks, its own options beside the run's.
#include "config/commands/doctor_plan.h"
#include "config/helpers.h"

namespace hone::config {
namespace ranks_plan_test {

using RanksPlanTest = ConfigTest;
using Counts = std::vector<std::int64_t>;

TEST_F(RanksPlanTest, CountsAreListedOrDoubled) {
  EXPECT_EQ(counts_of("4", "--nproc"), Counts{4});
  EXPECT_EQ(counts_of("1,2, 6", "--nproc"), (Counts{1, 2, 6}));
  EXPECT_EQ(counts_of("1,2,...,16", "--nproc"), (Counts{1, 2, 4, 8, 16}));
  EXPECT_EQ(counts_of("3,...,20", "--nproc"), (Counts{3, 6, 12, 20}));
}

TEST_F(RanksPlanTest, OtherTextIsRefused) {
  for (const char* text :
       {"", "0", "x", "1,,2", "2,1", "1,...", "...,4", "1,...,...,8", "4097", "1.5", "-1"}) {
    const std::string error = error_of([&] { counts_of(text, "--nproc"); });
    EXPECT_NE(error.find("--nproc"), std::string::npos) << text;
  }
}

TEST_F(RanksPlanTest, ItsOptionsAreNotTheRuns) {
  const std::string file = write("run.yaml", "packing: true\n");
  const RanksPlan plan = parse_ranks_plan({file, "--nproc", "1,4", "--lora_r", "8", "--memory=2GB",
                                           "--keep_batch", "--latency", "10", "--hosts", "2"});
  EXPECT_EQ(plan.method, Method::kSft);
  EXPECT_EQ(plan.arguments, (std::vector<std::string>{"--config", file, "--lora_r", "8"}));
  EXPECT_EQ(plan.ranks_per_host, (Counts{1, 4}));
  EXPECT_EQ(plan.host_counts, Counts{2});
  EXPECT_EQ(plan.memory, 2'000'000'000);
  EXPECT_EQ(plan.latency, 10);
  EXPECT_TRUE(plan.keep_batch);
  EXPECT_FALSE(plan.json);
}

TEST_F(RanksPlanTest, TwoSourcesOfAStepAreOneTooMany) {
  const std::string file = write("run.yaml", "packing: true\n");
  const std::string error =
      error_of([&] { parse_ranks_plan({file, "--step_seconds", "2", "--measured", "out"}); });
  EXPECT_NE(error.find("leave one out"), std::string::npos);
}

}  // namespace ranks_plan_test
}  // namespace hone::config
