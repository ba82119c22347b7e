// Ranks of one host find one file for their base (train/opening/host_base.h). Here they are threads of one process.
#include "train/opening/host_base.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "parallel/thread_ranks.h"

namespace hone::train {
namespace host_base_test {

TEST(HostBase, RanksOfAHostFindOneFile) {
  std::vector<config::Plan> plans(3);
  const auto said = parallel::thread_ranks::run(3, [&](parallel::Ranks& ranks) {
    find_shared_base(plans[static_cast<std::size_t>(ranks.rank())], ranks);
  });
  for (const std::string& text : said) EXPECT_EQ(text, "");
  for (const config::Plan& plan : plans) {
    EXPECT_GE(plan.shared_base.descriptor, 0);
    EXPECT_EQ(plan.shared_base.ranks, 3);
    EXPECT_EQ(plan.shared_base.leads, &plan == plans.data());
    EXPECT_TRUE(plan.notes.empty());
    close(plan.shared_base.descriptor);
  }
}

TEST(HostBase, OneProcessHasNone) {
  config::Plan plan;
  parallel::OneRank alone;
  find_shared_base(plan, alone);
  EXPECT_EQ(plan.shared_base.descriptor, -1);
}

}  // namespace host_base_test
}  // namespace hone::train
