// The losses of the Tinker API, by their formulas written again and by differences in fp64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "serve/training/losses.h"

namespace hone::serve {
namespace tinker_losses_test {

using Config = std::map<std::string, std::variant<double, std::string>>;

Datum random_datum(bool is_cross_entropy, unsigned seed) {
  Datum datum;
  const auto number = [&seed] {
    seed = seed * 1664525U + 1013904223U;
    return static_cast<float>(seed >> 8U) / static_cast<float>(1U << 24U);
  };
  for (int i = 0; i < 40; ++i) {
    datum.tokens.push_back(i);
    datum.targets.push_back(i + 1);
    if (is_cross_entropy) {
      datum.weights.push_back(2 * number() - 1);
    } else {
      datum.logprobs.push_back(-3 * number());
      datum.advantages.push_back(i % 7 == 0 ? 0 : 4 * number() - 2);
    }
  }
  return datum;
}

// The table of losses.h, in another way.
double loss(const std::string& name, const Datum& d, const std::vector<double>& l) {
  double sum = 0;
  for (std::size_t i = 0; i < l.size(); ++i) {
    if (name == "cross_entropy") {
      sum -= static_cast<double>(d.weights[i]) * l[i];
      continue;
    }
    const double a = d.advantages[i], gap = l[i] - d.logprobs[i], r = std::exp(gap);
    if (name == "importance_sampling") sum -= r * a;
    if (name == "ppo") sum -= std::min(r * a, std::min(std::max(r, 0.7), 1.3) * a);
    if (name == "cispo") sum -= std::min(std::max(r, 0.5), 2.0) * a * l[i];
    if (name == "dro") sum -= a * l[i] - 0.05 / 2 * gap * gap;
  }
  return sum;
}

Config config_of(const std::string& name) {
  if (name == "ppo") return {{"clip_low_threshold", 0.7}, {"clip_high_threshold", 1.3}};
  if (name == "cispo") return {{"clip_low_threshold", 0.5}, {"clip_high_threshold", 2.0}};
  if (name == "dro") return {{"beta", 0.05}};
  return {};
}

class TinkerLossOf : public ::testing::TestWithParam<const char*> {};

TEST_P(TinkerLossOf, ValueAndDerivativeByDifferences) {
  const std::string name = GetParam();
  const LossSpec spec = read_loss(name, config_of(name));
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const Datum datum = random_datum(name == "cross_entropy", seed);
    std::vector<float> logprobs;
    for (int i = 0; i < 40; ++i)
      logprobs.push_back(-0.07F * static_cast<float>((i * 13 + static_cast<int>(seed)) % 40));
    const std::vector<double> l(logprobs.begin(), logprobs.end());
    const LossOfDatum found = loss_of(spec, datum, logprobs);
    EXPECT_NEAR(found.loss, loss(name, datum, l), 1e-9 * (1 + std::abs(found.loss)));
    for (std::size_t i = 0; i < l.size(); ++i) {
      double derivative = 0;
      if (name == "cispo") {  // its factor has no gradient
        const double r = std::exp(l[i] - static_cast<double>(datum.logprobs[i]));
        derivative = -std::min(std::max(r, 0.5), 2.0) * static_cast<double>(datum.advantages[i]);
      } else {
        const double step = 1e-6;
        std::vector<double> up = l, down = l;
        up[i] += step;
        down[i] -= step;
        derivative = (loss(name, datum, up) - loss(name, datum, down)) / (2 * step);
      }
      EXPECT_NEAR(found.d_logprob[i], derivative, 1e-6 * (1 + std::abs(derivative))) << name << " at " << i;
      EXPECT_TRUE(may_have_gradient(spec, datum, i) || found.d_logprob[i] == 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TinkerLossOf,
                         ::testing::Values("cross_entropy", "importance_sampling", "ppo", "cispo", "dro"));

TEST(TinkerLosses, TheRatioItselfIsBounded) {
  const LossSpec ppo = read_loss("ppo", {}), cispo = read_loss("cispo", {});
  EXPECT_EQ(ppo.low, 0.8);
  EXPECT_EQ(ppo.high, 1.2);
  EXPECT_EQ(cispo.low, 0);
  EXPECT_EQ(cispo.high, 4);
}

// Twice the datum is twice the loss: nothing is divided by tokens.
TEST(TinkerLosses, PlainSums) {
  Datum datum = random_datum(true, 3);
  std::vector<float> logprobs(40, -1.5F);
  const double once = loss_of({}, datum, logprobs).loss;
  datum.targets.insert(datum.targets.end(), datum.targets.begin(), datum.targets.end());
  datum.weights.insert(datum.weights.end(), datum.weights.begin(), datum.weights.end());
  logprobs.resize(80, -1.5F);
  EXPECT_NEAR(loss_of({}, datum, logprobs).loss, 2 * once, 1e-12);
}

std::string refusal(const std::string& name, const Config& config) {
  try {
    read_loss(name, config);
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "";
}

TEST(TinkerLosses, Refusals) {
  EXPECT_NE(refusal("gspo", {}).find("cross_entropy, importance_sampling, ppo, cispo, dro"),
            std::string::npos);
  EXPECT_NE(refusal("importance_samplin", {}).find("Did you mean 'importance_sampling'"), std::string::npos);
  EXPECT_NE(refusal("dro", {}).find("beta"), std::string::npos);
  EXPECT_NE(refusal("ppo", {{"clip_low_threshold", 1.3}, {"clip_high_threshold", 0.7}}).find("ratio itself"),
            std::string::npos);
  EXPECT_NE(refusal("ppo", {{"beta", 0.1}}).find("'beta'"), std::string::npos);
  EXPECT_NE(refusal("cispo", {{"clip_high_threshold", std::string("4")}}).find("a text"), std::string::npos);
  Datum datum = random_datum(false, 5);
  datum.logprobs.assign(40, -1000);
  const std::vector<float> logprobs(40, -0.5F);
  EXPECT_THROW(loss_of(read_loss("importance_sampling", {}), datum, logprobs), base::UserError);
}

}  // namespace tinker_losses_test
}  // namespace hone::serve
