// hone compare's text.
#include <gtest/gtest.h>

#include <sstream>

#include "base/strings/lines.h"
#include "report/page/compare_text.h"
#include "report/terminal/text_width.h"

namespace hone::report {
namespace page_compare_test {

class ComparePages : public testing::Test {
 protected:
  static RunMetrics metrics(double loss, std::int64_t steps) {
    RunMetrics out;
    Series losses, evaluated, rate, memory;
    for (std::int64_t step = 1; step <= steps; ++step) losses.add(step, step == 2 ? loss / 2 : loss);
    evaluated.add(steps, loss * 3);
    rate.add(steps, 1e9);
    memory.add(steps, 2.5e9);
    out.series = {{"loss", losses},
                  {"eval_loss", evaluated},
                  {"eval_runtime", rate},
                  {"performance/memory_peak", memory}};
    out.last_step = steps;
    out.step_seconds = 100;
    return out;
  }
  static PagePlanRow row(const std::string& name, const std::string& value) {
    return {.name = name, .value = value};
  }

  RunMetrics first_ = metrics(2, 10), second_ = metrics(1, 20);
  PageRun a_{.name = "runs/first",
             .method = "sft",
             .metrics = &first_,
             .plan = {row("output_dir", "a"), row("seed", "1"), row("learning_rate", "0.1")}};
  PageRun b_{
      .name = "runs/second",
      .method = "sft",
      .metrics = &second_,
      .plan = {row("output_dir", "b"), row("seed", "1"), row("learning_rate", "0.2"), row("beta", "0")}};
};

TEST_F(ComparePages, ShowsOnlyWhatDiffers) {
  const std::string text = compare_text(a_, b_, {});
  EXPECT_NE(text.find("options   2 of 4 differ\n"
                      "          learning_rate\n"
                      "            a 0.1\n"
                      "            b 0.2\n"
                      "          beta\n"
                      "            a not an option of it\n"
                      "            b 0\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("seed"), std::string::npos);
  EXPECT_EQ(text.find("output_dir"), std::string::npos);
  EXPECT_EQ(text.find("eval_runtime"), std::string::npos);
}

TEST_F(ComparePages, HasResultsBesideEachOther) {
  const std::string text = compare_text(a_, b_, {});
  const auto has = [&](const std::vector<std::string>& words) {
    for (const std::string_view line : base::line_views(text)) {
      std::istringstream in{std::string(line)};
      std::vector<std::string> found;
      for (std::string word; in >> word;) found.push_back(word);
      if (found == words) return true;
    }
    return false;
  };
  EXPECT_TRUE(has({"steps", "10", "20", "+100", "%"})) << text;
  EXPECT_TRUE(has({"loss", "2", "1", "-1"})) << text;
  EXPECT_TRUE(has({"best", "1", "0.5", "-0.5"})) << text;
  EXPECT_TRUE(has({"eval_loss", "6", "3", "-3"})) << text;
  EXPECT_TRUE(has({"memory,", "peak", "2.50", "GB", "2.50", "GB", "equal"})) << text;
}

TEST_F(ComparePages, FitsSixtyColumns) {
  first_.series.emplace_back("eval_" + std::string(70, 'x') + "_loss", first_.series[0].second);
  a_.plan[2].value = "[a long value, of several words, that is wider than the terminal, and goes on]";
  const std::string text = compare_text(a_, b_, {.columns = 60});
  for (const std::string_view line : base::line_views(text)) EXPECT_LE(columns_of(line), 60) << line;
}

TEST_F(ComparePages, EqualPlansAndMissingOnes) {
  b_.plan = a_.plan;
  EXPECT_NE(compare_text(a_, b_, {}).find("options   equal, all 3 but the runs' places"), std::string::npos);
  b_.plan.clear();
  EXPECT_NE(compare_text(a_, b_, {}).find("options   not compared"), std::string::npos);
}

}  // namespace page_compare_test
}  // namespace hone::report
