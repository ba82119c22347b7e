// The plans of cpo and orpo.
#include "config/helpers.h"
#include "config/method_of.h"
#include "config/option_table.h"
#include "config/write_plan.h"

namespace hone::config {
namespace cpo_plan_test {

using Words = std::vector<std::string>;

class CpoPlanTest : public ConfigTest {
 protected:
  Plan cpo(const Words& words = {}) const { return parse_run(Method::kCpo, arguments(words)); }
  Plan orpo(const Words& words = {}) const { return parse_run(Method::kOrpo, arguments(words)); }
  std::string cpo_error(const Words& words) const {
    return error_of([&] { cpo(words); });
  }
};

TEST_F(CpoPlanTest, DefaultsAreTrls) {
  for (const Method method : {Method::kCpo, Method::kOrpo}) {
    const Plan plan = parse_run(method, arguments());
    Plan expected = expected_plan(method);
    expected.learning_rate = 1e-6;
    expected.disable_dropout = true;
    expected.lora_dropout = 0;  // disable_dropout
    expected.resolved = plan.resolved;
    EXPECT_EQ(plan, expected);
    EXPECT_TRUE(plan.notes.empty());
  }
}

TEST_F(CpoPlanTest, EveryOptionReachesThePlan) {
  CpoPlan expected;
  const auto expect = [&](const Words& words) {
    EXPECT_EQ(cpo(words).cpo, expected) << words[0];
    expected = {};
  };
  expected.loss_type = "hinge";
  expect({"--loss_type", "hinge"});
  expected.beta = 0.3;
  expect({"--beta", "0.3"});
  expected.label_smoothing = 0.1;
  expect({"--label_smoothing", "0.1"});
  expected.cpo_alpha = 0;
  expect({"--cpo_alpha", "0"});
  expected.simpo_gamma = 1.5;
  expect({"--simpo_gamma", "1.5"});
  expected.alpha = -0.5;
  expect({"--alpha", "-0.5"});
  EXPECT_EQ(orpo({"--beta", "0.3"}).orpo.beta, 0.3);
  EXPECT_FALSE(orpo({"--no_disable_dropout"}).disable_dropout);
}

// CPOConfig.__post_init__ and CPOTrainer.__init__.
TEST_F(CpoPlanTest, ResolvesAsTrl) {
  const Plan alphapo = cpo({"--loss_type", "alphapo", "--cpo_alpha", "0.5", "--alpha", "0.25"});
  EXPECT_EQ(alphapo.cpo.loss_type, "simpo");
  EXPECT_EQ(alphapo.cpo.cpo_alpha, 0);
  EXPECT_EQ(alphapo.cpo.alpha, 0.25);
  EXPECT_EQ(cpo({"--max_length", "null"}).max_length, 512);
  EXPECT_EQ(orpo({"--max_length", "null"}).max_length, 512);
}

TEST_F(CpoPlanTest, TakesRecipesOfSimPo) {
  const Plan plan = cpo({"--gamma_beta_ratio", "0.3", "--beta", "10"});
  EXPECT_EQ(plan.cpo.loss_type, "simpo");
  EXPECT_EQ(plan.cpo.simpo_gamma, 3);
  EXPECT_EQ(plan.cpo.cpo_alpha, 0);
  ASSERT_EQ(plan.notes.size(), 1U);
  EXPECT_NE(plan.notes[0].find("gamma_beta_ratio: SimPO's name"), std::string::npos);
  EXPECT_EQ(cpo({"--gamma_beta_ratio", "0.5", "--loss_type", "sigmoid", "--cpo_alpha", "0.1"}).cpo.cpo_alpha,
            0.1);
  EXPECT_NE(cpo_error({"--gamma_beta_ratio", "0.5", "--loss_type", "hinge"}).find("loss_type: simpo"),
            std::string::npos);
  EXPECT_NE(cpo_error({"--gamma_beta_ratio", "0.5", "--simpo_gamma", "1"}).find("both"), std::string::npos);
}

TEST_F(CpoPlanTest, NamesWhatIsNotUsed) {
  const auto first_note = [&](const Words& words) {
    const Plan plan = cpo(words);
    return plan.notes.empty() ? std::string() : plan.notes[0];
  };
  EXPECT_NE(first_note({"--simpo_gamma", "1"}).find("simpo_gamma: not used"), std::string::npos);
  EXPECT_NE(first_note({"--loss_type", "ipo", "--label_smoothing", "0.1"}).find("label_smoothing: not used"),
            std::string::npos);
  EXPECT_NE(first_note({"--alpha", "0.5"}).find("sums log-probabilities"), std::string::npos);
  EXPECT_NE(cpo_error({"--loss_type", "kto_pair"}).find("sigmoid, hinge, ipo, simpo"), std::string::npos);
  EXPECT_NE(cpo_error({"--is_encoder_decoder"}).find("no encoder-decoder"), std::string::npos);
}

TEST_F(CpoPlanTest, IsItsOwnRunAgain) {
  for (const Words& words : {Words{"--gamma_beta_ratio", "0.3", "--beta", "10"},
                             Words{"--loss_type", "alphapo"}, Words{"--max_length", "null"}}) {
    Plan plan = cpo(words);
    const std::string yaml = write_plan(plan);
    EXPECT_EQ(method_of(yaml), Method::kCpo);
    const Plan again = parse_run_text(Method::kCpo, yaml, "plan.yaml");
    EXPECT_EQ(again.cpo, plan.cpo);
    EXPECT_EQ(again.max_length, plan.max_length);
    EXPECT_EQ(again.resolved, plan.resolved);
  }
  EXPECT_EQ(method_of("cpo_alpha: 0.5\n"), Method::kCpo);
}

}  // namespace cpo_plan_test
}  // namespace hone::config
