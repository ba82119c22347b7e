// accuracy_reward beside TRL's own with math_verify, on recorded pairs (tests/parity/record_rewards.py).
#include "rewards/math/accuracy_reward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>

#include "base/files/file.h"
#include "base/json.h"

namespace hone::rewards {
namespace accuracy_test {

using base::Json;

Json golden(const std::string& file) {
  const std::string path = HONE_FIXTURES "/parity/rewards/" + file;
  return base::parse_json(base::read_text(path), path);
}

double score(const std::string& gold, const std::string& completion, bool lenient = false) {
  const AccuracyResult out = judge_accuracy(gold, completion, lenient);
  return !out.correct ? kNone : *out.correct ? 1 : 0;
}

bool same(double score, const Json& expected) {
  return expected.is_null() ? std::isnan(score) : score == expected.get<double>();
}

// How many rows differ; each is printed.
std::size_t differences(const Json& rows) {
  std::size_t count = 0;
  for (const Json& row : rows) {
    const double mine = score(row[0], row[1]);
    if (same(mine, row[2])) continue;
    ++count;
    const AccuracyResult out = judge_accuracy(row[0], row[1]);
    std::cout << "  " << base::dump_json(row) << " hone " << mine << " [" << out.gold << "] [" << out.answer
              << "]\n";
  }
  return count;
}

TEST(Accuracy, DecidesAsMathVerifyDoes) {
  const Json all = golden("accuracy.json");
  std::size_t pairs = 0;
  for (const auto& [name, rows] : all.at("classes").items()) {
    pairs += rows.size();
    EXPECT_EQ(differences(rows), 0U) << name;
  }
  EXPECT_GT(pairs, 1500U);
  const Json& open = all.at("open");
  std::cout << "accuracy: " << pairs << " pairs in the forms that hone decides; of " << open.size()
            << " in forms that it does not, " << differences(open) << " differ\n";
}

// A wrong answer gets no point: LaTeX that is not worked out ends the search, where math_verify takes a number from it.
TEST(Accuracy, TakesNoNumberFromInsideOfWhatItDoesNotDecide) {
  const Json all = golden("accuracy.json");
  std::size_t taken = 0;
  for (const Json& row : all.at("inside")) {
    EXPECT_EQ(score(row[0], row[1]), 0) << base::dump_json(row);
    taken += row[2] == 1;
  }
  EXPECT_GT(taken, 0U) << "math_verify takes none either";
  EXPECT_EQ(score(R"($\lim_{x \to 2} x^2$)", R"(\boxed{2})"), 0);
  EXPECT_EQ(score(R"(Since 7 > 2, it is $\begin{cases} x \\ 2 \end{cases}$)", R"(\boxed{7})"), 0);
}

}  // namespace accuracy_test
}  // namespace hone::rewards
