#include "rollout/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "base/rng.h"
#include "rollout/scores.h"

namespace hone::rollout {
namespace sampler_test {

using Scores = std::vector<float>;

Scores scores_of(const std::vector<double>& probabilities) {
  Scores out;
  for (const double p : probabilities) out.push_back(static_cast<float>(std::log(p)));
  return out;
}

Scores random_scores(std::size_t count, std::uint64_t seed, double spread) {
  const base::Stream stream(seed, base::Purpose::kDemoData, 0);
  Scores out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back(static_cast<float>(spread * static_cast<double>(stream.normal(i))));
  }
  return out;
}

// ---- the reference: transformers' warpers with a full sort, in fp64

struct Reference {
  std::vector<double> probability;  // [V] after the filters; 0: removed
  double margin = 1;                // how near to another set top_p was, as a share of the mass
};

std::vector<double> softmax(const std::vector<double>& z) {
  const double best = *std::max_element(z.begin(), z.end());
  std::vector<double> out;
  double total = 0;
  for (const double x : z) total += out.emplace_back(std::exp(x - best));
  for (double& p : out) p /= total;
  return out;
}

Reference reference(const Scores& scores, const SamplerOptions& options) {
  constexpr double kRemoved = -std::numeric_limits<double>::infinity();
  Reference out;
  std::vector<double> z;
  for (const float x : scores) z.push_back(static_cast<double>(x) / options.temperature);
  if (options.top_k > 0 && options.top_k < static_cast<std::int64_t>(z.size())) {
    std::vector<double> sorted = z;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const double least = sorted[static_cast<std::size_t>(options.top_k) - 1];
    for (double& x : z) x = x < least ? kRemoved : x;
  }
  if (options.top_p < 1) {
    const std::vector<double> p = softmax(z);
    std::vector<std::size_t> order(z.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return z[a] > z[b]; });
    double before = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (p[order[i]] > 0) out.margin = std::min(out.margin, std::abs(before - options.top_p));
      if (i > 0 && before >= options.top_p) z[order[i]] = kRemoved;
      before += p[order[i]];
    }
  }
  if (options.min_p > 0) {
    const std::vector<double> p = softmax(z);
    const double best = *std::max_element(p.begin(), p.end());
    for (std::size_t i = 0; i < z.size(); ++i) {
      if (p[i] > 0) out.margin = std::min(out.margin, std::abs(p[i] - options.min_p * best));
      if (p[i] < options.min_p * best) z[i] = kRemoved;
    }
  }
  out.probability = softmax(z);
  return out;
}

std::set<std::size_t> kept_by(const Cut& cut, const Scores& scores) {
  std::set<std::size_t> out;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (cut.keeps(scores[i], static_cast<std::int64_t>(i)) && std::isfinite(scores[i])) out.insert(i);
  }
  return out;
}

std::set<std::size_t> kept_by(const std::vector<double>& probability) {
  std::set<std::size_t> out;
  for (std::size_t i = 0; i < probability.size(); ++i) {
    if (probability[i] > 0) out.insert(i);
  }
  return out;
}

// ---- Pearson's chi-square

// P(X >= statistic) of the distribution with `freedom` degrees: 1 - P(freedom / 2, statistic / 2), by the
// series of the lower incomplete gamma function (Abramowitz and Stegun 6.5.29).
double chi_square_tail(double statistic, double freedom) {
  if (statistic > 10 * freedom + 600) return 0;  // below 1e-100, and the series would overflow
  const double a = freedom / 2, x = statistic / 2;
  double term = 1 / a, total = term;
  for (int n = 1; n < 10000 && term > total * 1e-16; ++n) total += term *= x / (a + n);
  return 1 - total * std::exp(-x + a * std::log(x) - std::lgamma(a));
}

// How likely these counts, or worse ones, are under `expected`; 0 when a removed token was drawn. Tokens that
// are expected fewer than 5 times share a bin.
double likelihood(const std::vector<int>& counts, const std::vector<double>& expected) {
  const double draws = std::accumulate(counts.begin(), counts.end(), 0.0);
  double statistic = 0, rare = 0, rare_expected = 0;
  int bins = 0;
  const auto add = [&](double found, double wanted) {
    statistic += (found - wanted) * (found - wanted) / wanted;
    ++bins;
  };
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double wanted = expected[i] * draws;
    if (wanted <= 0 && counts[i] > 0) return 0;
    if (wanted >= 5) {
      add(counts[i], wanted);
    } else {
      rare += counts[i];
      rare_expected += wanted;
    }
  }
  if (rare_expected >= 1) add(rare, rare_expected);
  return bins < 2 ? 1 : chi_square_tail(statistic, bins - 1);
}

std::vector<int> drawn(const Scores& scores, const SamplerOptions& options, int draws) {
  Sampler sampler;
  std::vector<int> out(scores.size());
  for (int i = 0; i < draws; ++i) {
    const double uniform = sampling_uniform(7, 0, 3, 1, static_cast<std::uint64_t>(i));
    ++out[static_cast<std::size_t>(sampler.draw(scores, options, uniform).id)];
  }
  return out;
}

TEST(ChiSquare, KnowsTabulatedValues) {  // NIST, e-Handbook of Statistical Methods 1.3.6.7.4
  EXPECT_NEAR(chi_square_tail(3.841, 1), 0.05, 1e-4);
  EXPECT_NEAR(chi_square_tail(67.505, 50), 0.05, 1e-4);
  EXPECT_NEAR(chi_square_tail(86.661, 50), 0.001, 1e-5);
}

// ---- the sets that are kept

struct Filters {
  const char* name;
  SamplerOptions options;
};

const std::vector<Filters> kFilters = {
    {"none", {.temperature = 1}},
    {"cool", {.temperature = 0.6}},
    {"hot", {.temperature = 1.7}},
    {"top_k", {.temperature = 1, .top_k = 7}},
    {"top_p", {.temperature = 1, .top_p = 0.8}},
    {"min_p", {.temperature = 1, .min_p = 0.1}},
    {"top_k_top_p", {.temperature = 0.8, .top_k = 20, .top_p = 0.9}},
    {"top_k_min_p", {.temperature = 1.3, .top_k = 30, .min_p = 0.05}},
    {"top_p_min_p", {.temperature = 1, .top_p = 0.95, .min_p = 0.02}},
    {"all", {.temperature = 0.9, .top_k = 25, .top_p = 0.9, .min_p = 0.08}}};

class SamplerOf : public testing::TestWithParam<Filters> {};

TEST_P(SamplerOf, KeepsTheTokensThatTheReferenceKeeps) {
  Sampler sampler;
  int compared = 0, near = 0;
  std::uint64_t seed = 0;
  for (const std::size_t vocabulary : {1U, 2U, 50U, 63U, 64U, 65U, 128U, 1000U, 5003U}) {
    for (const double spread : {0.01, 1.0, 3.0, 12.0}) {
      for (int i = 0; i < 6; ++i) {
        const Scores scores = random_scores(vocabulary, ++seed, spread);
        const Reference wanted = reference(scores, GetParam().options);
        if (wanted.margin < 1e-6) {
          ++near;
          continue;
        }
        ASSERT_EQ(kept_by(sampler.cut(scores, GetParam().options), scores), kept_by(wanted.probability))
            << vocabulary << " tokens, spread " << spread << ", seed " << seed;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 150) << near << " cases were too near to another set";
}

TEST_P(SamplerOf, DrawsTheDistributionOfTheReference) {
  const Scores scores = random_scores(50, 99, 1.5);
  EXPECT_GT(
      likelihood(drawn(scores, GetParam().options, 20000), reference(scores, GetParam().options).probability),
      1e-4);
}

TEST_P(SamplerOf, TellsTheLogProbabilityOfWhatItDrew) {
  const Scores scores = random_scores(3000, 5, 2.5);
  const Reference wanted = reference(scores, GetParam().options);
  Sampler sampler;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Draw draw = sampler.draw(scores, GetParam().options, sampling_uniform(1, 0, 0, 0, i));
    EXPECT_NEAR(draw.logprob, std::log(wanted.probability[static_cast<std::size_t>(draw.id)]), 2e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Filters, SamplerOf, testing::ValuesIn(kFilters),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Sampler, AWrongDistributionIsFound) {
  const Scores scores = random_scores(50, 99, 1.5);
  const std::vector<int> counts = drawn(scores, {.temperature = 1}, 20000);
  EXPECT_LT(likelihood(counts, reference(scores, {.temperature = 1.1}).probability), 1e-8);
  EXPECT_EQ(likelihood(counts, reference(scores, {.temperature = 1, .top_k = 20}).probability), 0);
  EXPECT_LT(likelihood(drawn(scores, {.temperature = 1, .top_k = 20}, 20000),
                       reference(scores, {.temperature = 1}).probability),
            1e-8);
}

TEST(Sampler, DrawsOverManyBlocksAsOverOne) {
  // The counts of 40 groups of tokens, each spread over all blocks.
  const Scores scores = random_scores(6400, 21, 2.0);
  const std::vector<double> probability = reference(scores, {.temperature = 1}).probability;
  const std::vector<int> counts = drawn(scores, {.temperature = 1}, 20000);
  std::vector<int> group(40);
  std::vector<double> expected(40);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    group[i % 40] += counts[i];
    expected[i % 40] += probability[i];
  }
  EXPECT_GT(likelihood(group, expected), 1e-4);
}

TEST(Sampler, TheUniformNumberIsTheInverseOfTheSumInOrderOfIds) {
  Sampler sampler;
  const Scores scores = scores_of({0.5, 0.125, 0.125, 0.25});
  const auto at = [&](double uniform) { return sampler.draw(scores, {.temperature = 1}, uniform).id; };
  EXPECT_EQ(at(0), 0);
  EXPECT_EQ(at(0.49), 0);
  EXPECT_EQ(at(0.51), 1);
  EXPECT_EQ(at(0.63), 2);
  EXPECT_EQ(at(0.76), 3);
  EXPECT_EQ(at(1 - 0x1.0p-53), 3);
}

// ---- equals and edges

TEST(Sampler, GreedyTakesTheFirstOfTheBest) {
  Sampler sampler;
  const Draw draw = sampler.draw(Scores{1, 3, 3, 2}, {.temperature = 0, .top_k = 1}, 0.99);
  EXPECT_EQ(draw.id, 1);
  EXPECT_EQ(draw.logprob, 0);
}

TEST(Sampler, TopKKeepsAllThatEqualTheKth) {
  Sampler sampler;
  const Scores scores = {1, 5, 3, 3, 3, 0};
  EXPECT_EQ(kept_by(sampler.cut(scores, {.temperature = 1, .top_k = 2}), scores),
            (std::set<std::size_t>{1, 2, 3, 4}));
  EXPECT_EQ(kept_by(sampler.cut(scores, {.temperature = 1, .top_k = 1}), scores), (std::set<std::size_t>{1}));
  EXPECT_EQ(kept_by(sampler.cut(scores, {.temperature = 1, .top_k = 600}), scores).size(), 6U);
}

TEST(Sampler, TopPKeepsTheLowerIdsOfEquals) {
  Sampler sampler;
  const Scores scores(1000, 0.5F);
  const std::set<std::size_t> kept = kept_by(sampler.cut(scores, {.temperature = 1, .top_p = 0.1}), scores);
  EXPECT_NEAR(static_cast<double>(kept.size()), 100, 1);  // 0.1 of the mass is on a border
  EXPECT_EQ(*kept.rbegin(), kept.size() - 1);
  // A cut within a block: no id above it is ever drawn.
  const SamplerOptions options = {.temperature = 1, .top_p = 0.1005};
  const std::vector<int> counts = drawn(scores, options, 5000);
  std::vector<double> expected(1000);
  std::fill_n(expected.begin(), 101, 1.0 / 101);
  EXPECT_GT(likelihood(counts, expected), 1e-4);
}

TEST(Sampler, TopPKeepsAtLeastOne) {
  Sampler sampler;
  const Scores scores = scores_of({0.25, 0.5, 0.25});
  EXPECT_EQ(kept_by(sampler.cut(scores, {.temperature = 1, .top_p = 1e-9}), scores),
            (std::set<std::size_t>{1}));
}

TEST(Sampler, MinPOneKeepsTheBestAndItsEquals) {
  Sampler sampler;
  const Scores scores = {2, 1, 2, -1};
  EXPECT_EQ(kept_by(sampler.cut(scores, {.temperature = 0.7, .min_p = 1}), scores),
            (std::set<std::size_t>{0, 2}));
}

TEST(Sampler, ATinyTemperatureIsGreedyAndAHugeOneEven) {
  Sampler sampler;
  const Scores scores = {1, 3, 2.999F, -40};
  for (const double uniform : {0.0, 0.3, 0.999999}) {
    EXPECT_EQ(sampler.draw(scores, {.temperature = 1e-300}, uniform).id, 1);
    EXPECT_EQ(sampler.draw(scores, {.temperature = 1e-6, .top_p = 0.9, .min_p = 0.1}, uniform).id, 1);
    EXPECT_EQ(sampler.draw(scores, {.temperature = 1e300}, uniform).id,
              static_cast<std::int64_t>(uniform * 4));
  }
}

TEST(Sampler, NeverDrawsWhatIsForbidden) {
  Sampler sampler;
  Scores scores = {5, 1, 4, 1};
  forbid(scores, std::vector<std::int64_t>{0, 2, 17, -1});
  for (const SamplerOptions& options :
       {SamplerOptions{.temperature = 1}, SamplerOptions{.temperature = 1, .top_k = 3},
        SamplerOptions{.temperature = 1, .top_p = 0.99}, SamplerOptions{.temperature = 1, .min_p = 0.01},
        SamplerOptions{}}) {
    for (const double uniform : {0.0, 0.4, 0.6, 1 - 0x1.0p-53}) {
      const std::int64_t id = sampler.draw(scores, options, uniform).id;
      EXPECT_TRUE(id == 1 || id == 3) << id;
    }
  }
}

TEST(Sampler, ForgetsWhatItDrewBefore) {
  Sampler used, fresh;
  used.draw(random_scores(5000, 1, 3), {.temperature = 1, .top_k = 3, .top_p = 0.5}, 0.3);
  const Scores scores = random_scores(300, 2, 1);
  for (const Filters& filters : kFilters) {
    for (const double uniform : {0.0, 0.37, 0.92}) {
      const Draw a = used.draw(scores, filters.options, uniform),
                 b = fresh.draw(scores, filters.options, uniform);
      EXPECT_EQ(a.id, b.id) << filters.name;
      EXPECT_EQ(a.logprob, b.logprob) << filters.name;
    }
  }
}

// ---- before the sampler

TEST(Scores, ThePenaltyDividesWhatIsPositiveAndMultipliesWhatIsNegative) {
  Scores scores = {2, -2, 4, -4, 0};
  penalize(scores, std::vector<std::int32_t>{0, 1, 4, 99, -1}, 1.25);
  EXPECT_EQ(scores, (Scores{1.6F, -2.5F, 4, -4, 0}));
}

TEST(Scores, FindsWhatIsNotFinite) {
  Scores scores(1000, -1e38F);
  EXPECT_TRUE(all_finite(scores));
  for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    scores[777] = bad;
    EXPECT_FALSE(all_finite(scores));
  }
}

TEST(SamplingUniform, DependsOnEveryKeyAndIsEven) {
  const double one = sampling_uniform(1, 2, 3, 4, 5);
  EXPECT_EQ(one, sampling_uniform(1, 2, 3, 4, 5));
  EXPECT_NE(one, sampling_uniform(9, 2, 3, 4, 5));
  EXPECT_NE(one, sampling_uniform(1, 9, 3, 4, 5));
  EXPECT_NE(one, sampling_uniform(1, 2, 9, 4, 5));
  EXPECT_NE(one, sampling_uniform(1, 2, 3, 9, 5));
  EXPECT_NE(one, sampling_uniform(1, 2, 3, 4, 9));
  std::vector<int> counts(64);
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double uniform = sampling_uniform(1, 0, i % 100, i / 5000, i / 100);
    ASSERT_GE(uniform, 0);
    ASSERT_LT(uniform, 1);
    ++counts[static_cast<std::size_t>(uniform * 64)];
  }
  EXPECT_GT(likelihood(counts, std::vector<double>(64, 1.0 / 64)), 1e-4);
}

}  // namespace sampler_test
}  // namespace hone::rollout
