#include "report/loss_words.h"

#include <gtest/gtest.h>

#include <limits>

namespace hone::report {
namespace {

std::string words(double loss, double norm, double dead, double reward = 0.5) {
  return loss_words(
      {.step = 10,
       .epoch = 0,
       .values = {{"loss", loss}, {"grad_norm", norm}, {"reward", reward}, {"dead_groups", dead}}});
}

// The table of situations that all print `loss: 0` in TRL.
TEST(LossWords, TellTheMeaningsOfZeroApart) {
  EXPECT_EQ(
      words(-2.98e-8, 0.2149, 0.25),
      "note      loss 0.0000 is expected here: the advantages of a group sum to 0; the gradient, of norm "
      "0.215, is what moves the adapter");
  EXPECT_NE(words(0, 0, 1, 0).find("no signal. In every group all rewards are equal (mean 0)"),
            std::string::npos);
  EXPECT_NE(words(0, 0, 0.5).find("no gradient: every completion that could teach something was masked"),
            std::string::npos);
  EXPECT_NE(words(0.058, 0.2, 0).find("loss 0.0580 is no measure of progress"), std::string::npos);
}

TEST(LossWords, KnowTrlsNameOfDeadGroups) {
  const std::string text = loss_words(
      {.step = 1,
       .epoch = 0,
       .values = {{"loss", 0.0}, {"grad_norm", 0.0}, {"reward", 1.0}, {"frac_reward_zero_std", 1.0}}});
  EXPECT_NE(text.find("no signal"), std::string::npos) << text;
}

TEST(LossWords, SayNothingOfSftOrOfWhatIsNotANumber) {
  EXPECT_EQ(loss_words({.step = 1, .epoch = 0, .values = {{"loss", 0.0}, {"grad_norm", 0.1}}}), "");
  EXPECT_EQ(words(0, std::numeric_limits<double>::quiet_NaN(), 0), "") << "the loop stops such a run itself";
  EXPECT_EQ(words(0, 0.1, 0, std::numeric_limits<double>::quiet_NaN()), "");
}

}  // namespace
}  // namespace hone::report
