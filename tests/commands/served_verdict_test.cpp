// What hone verify-served calls a server by the distances of hypotheses, with rounding and without.
#include "commands/verify/served_verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace hone::commands {
namespace {

using Numbers = std::vector<std::vector<float>>;
constexpr std::size_t kTexts = 8, kTokens = 40;

Numbers drawn(unsigned seed, double size) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(0, size);
  Numbers out(kTexts, std::vector<float>(kTokens));
  for (auto& text : out)
    for (float& one : text) one = static_cast<float>(normal(generator));
  return out;
}

Numbers sum(const Numbers& left, const Numbers& right, double times = 1) {
  Numbers out = left;
  for (std::size_t i = 0; i < out.size(); ++i)
    for (std::size_t j = 0; j < out[i].size(); ++j) out[i][j] += static_cast<float>(times * right[i][j]);
  return out;
}

// A base, what the adapter adds to it, and the half that its attention adds.
struct Served {
  explicit Served(double size)
      : base(sum(drawn(1, 0.3), Numbers(kTexts, std::vector<float>(kTokens, -3)))),
        half(drawn(2, size)),
        whole(sum(half, drawn(3, size))) {}

  // The verdict of a server that says these numbers.
  std::string code(const Numbers& said) const { return verdict(said).code; }
  ServedVerdict verdict(const Numbers& said, const Numbers* another = nullptr) const {
    std::vector<ServedScores> served;
    for (const auto& one : said) served.push_back({.ids = {}, .from = 1, .logprobs = one});
    std::vector<Measured> measured;
    std::vector<std::pair<const char*, Numbers>> all = {{kApplied, sum(base, whole)},
                                                        {kBaseOnly, base},
                                                        {"attention_only", sum(base, half)},
                                                        {"twice", sum(base, whole, 2)}};
    if (another != nullptr) all.emplace_back("another", *another);
    for (const auto& [name, own] : all)
      measured.push_back({.hypothesis = {.code = name, .words = name, .cause = "", .fix = ""},
                          .distance = distance(served, own),
                          .own = own});
    return verdict_of(served, measured, 0.1);
  }

  Numbers base, half, whole;
};

TEST(ServedVerdict, StrongAdaptersAreNamedByTheirDistance) {
  const Served strong(0.5);
  EXPECT_EQ(strong.code(sum(strong.base, strong.whole)), kApplied);
  EXPECT_EQ(strong.code(strong.base), kBaseOnly);
  EXPECT_EQ(strong.code(sum(strong.base, strong.whole, 2)), "twice");
  EXPECT_EQ(strong.code(sum(strong.base, drawn(9, 0.5))), "none");
}

// As vLLM in bf16 with an adapter of a few steps: the rounding is a third of what the adapter changes.
TEST(ServedVerdict, RoundingHasNoDirection) {
  const Served weak(0.1);
  const Numbers rounding = drawn(7, 0.05);
  EXPECT_EQ(weak.code(sum(sum(weak.base, weak.whole), rounding)), kApplied);
  EXPECT_EQ(weak.code(sum(weak.base, rounding)), kBaseOnly);
  EXPECT_EQ(weak.code(sum(sum(weak.base, weak.half), rounding)), "attention_only");
  EXPECT_EQ(weak.code(sum(sum(weak.base, weak.whole, 2), rounding)), "twice");
}

// A part of the adapter, as an older version of it has, is not called the whole.
TEST(ServedVerdict, APartOfTheWayIsNotToldApart) {
  const Served weak(0.1);
  const Numbers rounding = drawn(7, 0.02);
  EXPECT_EQ(weak.code(sum(sum(weak.base, weak.whole, 0.6), rounding)), "not_told_apart");
  EXPECT_EQ(weak.code(sum(sum(weak.base, weak.whole, 0.3), rounding)), "not_told_apart");
}

// Where rounding could hide a part of the adapter that is missing, the verdict says how much.
TEST(ServedVerdict, RoundingThatHidesAPartIsSaid) {
  const Served weak(0.1);
  const ServedVerdict found = weak.verdict(sum(sum(weak.base, weak.whole, 0.85), drawn(7, 0.05)));
  EXPECT_EQ(found.code, kApplied);
  EXPECT_NE(found.what.find("% of what it changes may be missing"), std::string::npos) << found.what;
  const Served strong(0.5);
  EXPECT_EQ(strong.verdict(sum(strong.base, strong.whole)).what, kApplied);
}

TEST(ServedVerdict, AHypothesisWithoutNumbersIsNotNear) {
  const Served weak(0.1);
  const Numbers said = sum(sum(weak.base, weak.whole), drawn(7, 0.05));
  const Numbers broken(kTexts, std::vector<float>(kTokens, NAN));
  EXPECT_EQ(weak.verdict(said, &broken).code, kApplied);
}

// A direction is known from many tokens only.
TEST(ServedVerdict, AFewTokensShowNoDirection) {
  Served weak(0.1);
  Numbers said = sum(sum(weak.base, weak.whole), drawn(7, 0.05));
  said.resize(1);
  said[0].resize(10);
  for (Numbers* numbers : {&weak.base, &weak.whole, &weak.half}) numbers->resize(1);
  EXPECT_EQ(weak.code(said), "not_told_apart");
}

TEST(ServedVerdict, AnAdapterWithinTheRoundingIsNotToldApart) {
  const Served none(0.01);
  EXPECT_EQ(none.code(sum(sum(none.base, none.whole), drawn(7, 0.05))), "not_told_apart");
  const Served zero(0);
  EXPECT_EQ(zero.code(zero.base), "not_told_apart");
}

TEST(ServedVerdict, NotANumberIsNoDistance) {
  const Served strong(0.5);
  EXPECT_EQ(strong.code(Numbers(kTexts, std::vector<float>(kTokens, NAN))), "not_told_apart");
}

}  // namespace
}  // namespace hone::commands
