#include "config/helpers.h"
#include "config/method_of.h"
#include "config/option_table.h"
#include "config/write_plan.h"

namespace hone::config {
namespace kto_plan_test {

using KtoPlanTest = ConfigTest;
using Words = std::vector<std::string>;

TEST_F(KtoPlanTest, DefaultsAreTrls) {
  const Plan plan = kto();
  Plan expected = expected_plan(Method::kKto);
  expected.learning_rate = 1e-6;
  expected.train_sampling_strategy = RowOrder::kSequential;
  expected.disable_dropout = true;
  expected.lora_dropout = 0;  // disable_dropout
  expected.resolved = plan.resolved;
  EXPECT_EQ(plan, expected);
  EXPECT_TRUE(plan.notes.empty());
}

TEST_F(KtoPlanTest, EveryOptionReachesThePlan) {
  KtoPlan expected;
  const auto expect = [&](const Words& words) { EXPECT_EQ(kto(words).kto, expected) << words[0]; };
  expected.loss_type = "apo_zero_unpaired";
  expect({"--loss_type", "apo_zero_unpaired"});
  expected = {};
  expected.beta = 0.3;
  expect({"--beta", "0.3"});
  expected = {};
  expected.desirable_weight = 1.5;
  expect({"--desirable_weight", "1.5"});
  expected = {};
  expected.undesirable_weight = 0;
  expect({"--undesirable_weight", "0"});
  const Plan precomputed = kto({"--precompute_ref_log_probs", "--precompute_ref_batch_size", "4"});
  EXPECT_TRUE(precomputed.precompute_ref_log_probs);
  EXPECT_EQ(precomputed.precompute_ref_batch_size, 4);
  EXPECT_FALSE(kto({"--no_disable_dropout"}).disable_dropout);
}

// Where KTOTrainer raises.
TEST_F(KtoPlanTest, TheKlNeedsNeighbors) {
  EXPECT_NE(kto_error({"--train_sampling_strategy", "random"}).find("sequential with loss_type: kto"),
            std::string::npos);
  EXPECT_NE(kto_error({"--per_device_train_batch_size", "1"}).find("per_device_train_batch_size above 1"),
            std::string::npos);
  const Plan plan = kto({"--train_sampling_strategy", "random", "--per_device_train_batch_size", "1",
                         "--loss_type", "apo_zero_unpaired"});
  EXPECT_EQ(plan.train_sampling_strategy, RowOrder::kRandom);
  EXPECT_NE(kto_error({"--desirable_weight", "0", "--undesirable_weight", "0"}).find("0 for both"),
            std::string::npos);
}

TEST_F(KtoPlanTest, IsItsOwnRunAgain) {
  const Plan plan = kto({"--undesirable_weight", "0.5", "--max_length", "77"});
  const std::string yaml = write_plan(plan);
  EXPECT_EQ(method_of(yaml), Method::kKto);
  EXPECT_EQ(parse_run_text(Method::kKto, yaml, "plan.yaml"), plan);
}

}  // namespace kto_plan_test
}  // namespace hone::config
