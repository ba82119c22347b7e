// samples.jsonl, its lines in the terminal and in TensorBoard, and what the page reads of it.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <sstream>

#include "base/json.h"
#include "report/page/read_samples.h"
#include "report/rollouts.h"
#include "report/run_report.h"
#include "report/samples_file.h"
#include "report/samples_text.h"
#include "report/terminal/text_width.h"
#include "train/saves/run_folder.h"

namespace hone::report {
namespace samples_test {

using base::Json;

train::SampleFacts samples(std::int64_t step, const std::string& what = "answer") {
  const std::string at = " of step " + std::to_string(step);
  return {.step = step,
          .total_steps = 9,
          .completions = {
              {.prompt = "<|user|>2 + 3?", .asked = "2 + 3?", .completion = what + at, .tokens = 4},
              {.prompt = "Go on:\n", .completion = "\x1b[2J" + what, .truncated = true, .tokens = 5}}};
}

class SamplesTest : public testing::Test {
 protected:
  std::vector<Json> lines() const {
    std::vector<Json> out;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) out.push_back(Json::parse(line));
    return out;
  }
  std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> out;
    for (const Json& line : lines()) out.push_back(line["step"].get<std::int64_t>());
    return out;
  }
  TestFolder folder_{"samples"};
  base::fs::path path_ = folder_.path() / train::kSamplesFile;
};

TEST_F(SamplesTest, EveryCompletionIsALine) {
  SamplesFile file(path_, 0);
  EXPECT_FALSE(base::fs::exists(path_)) << "a run without samples has no such file";
  EXPECT_FALSE(file.first());
  train::SampleFacts scored = samples(3);
  scored.reward_names = {"exact_match", "tokens"};
  scored.completions[0].rewards = {1, 0.5};
  scored.completions[1].rewards = {std::numeric_limits<double>::quiet_NaN(), 0};
  file.write(scored);
  EXPECT_EQ(file.first()->step, 3);
  const auto found = lines();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0], Json::parse(R"({"step": 3, "index": 0, "prompt": "<|user|>2 + 3?", "asked": "2 + 3?",
    "completion": "answer of step 3", "truncated": false, "tokens": 4, "exact_match": 1.0, "reward tokens": 0.5})"));
  EXPECT_FALSE(found[1].contains("asked"));
  EXPECT_TRUE(found[1]["exact_match"].is_null());
  EXPECT_EQ(found[1]["truncated"], true);
}

TEST_F(SamplesTest, AResumedRunGoesOnInIt) {
  {
    SamplesFile file(path_, 0);
    for (const std::int64_t step : {0, 3, 6}) file.write(samples(step));
  }
  std::ofstream(path_, std::ios::app)
      << "no JSON\n{\"step\": 1}\n{\"step\": 6, \"prom";  // of a process that was killed
  {
    SamplesFile file(path_, 5);
    ASSERT_TRUE(file.first());
    EXPECT_EQ(file.first()->step, 0);
    EXPECT_EQ(file.first()->completions[0].completion, "answer of step 0");
    EXPECT_EQ(file.first()->completions[1].truncated, true);
    file.write(samples(6));
  }
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{0, 0, 3, 3, 6, 6}));
  {
    const SamplesFile again(path_, 3, /*evaluates_again=*/true);
  }
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{0, 0})) << "those of step 3 are made again";
  {
    const SamplesFile fresh(path_, 0);
  }
  EXPECT_FALSE(base::fs::exists(path_)) << "a new run in the folder";
}

TEST_F(SamplesTest, LinesAreShortAndHoldNoControls) {
  const train::SampleFacts first = samples(0, std::string(200, 'x')), now = samples(20);
  EXPECT_EQ(samples_lines(nullptr, now, {}),
            "samples   step 20; those of all steps: samples.jsonl\n"
            "  prompt  2 + 3?\n"
            "      20  answer of step 20\n"
            "  prompt  Go on:\\n\n"
            "      20  \\x1b[2Janswer (cut)\n");
  const std::string text = samples_lines(&first, now, {.columns = 60});
  EXPECT_NE(text.find("       0  xxxx"), std::string::npos) << text;
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(columns_of(line), 60) << line;
  EXPECT_EQ(count, 7);
  train::SampleFacts many = now;
  many.completions.insert(many.completions.end(), 3, many.completions[0]);
  EXPECT_NE(samples_lines(&first, many, {}).find("step 20, 3 of 5 prompts;"), std::string::npos);
}

TEST_F(SamplesTest, TheReportWritesAndShowsThem) {
  std::ostringstream out;
  RunReport report(out, {.columns = 60}, /*tensorboard=*/true);
  report.on_start({.output_dir = folder_.path().string()});
  report.on_samples(samples(0));
  report.on_samples(samples(3));
  report.on_finish(folder_.path().string(), false, 3);
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{0, 0, 3, 3}));
  EXPECT_NE(out.str().find("       0  answer of step 0\n       3  answer of step 3\n"), std::string::npos)
      << out.str();
  std::string events;
  for (const auto& entry : base::fs::directory_iterator(folder_.path())) {
    if (entry.path().filename().string().starts_with("events.")) events = base::read_text(entry.path());
  }
  EXPECT_NE(events.find("samples/1/text_summary"), std::string::npos);
  EXPECT_NE(events.find("\ncompletion\n\n    answer of step 3\n"), std::string::npos);
  EXPECT_EQ(events.find("\x1b["), std::string::npos);  // the byte alone may be in a time stamp
}

TEST_F(SamplesTest, MarkdownIsAllCode) {
  EXPECT_EQ(sample_markdown({.prompt = "# a\n<script>", .completion = "", .truncated = true}),
            "prompt\n\n    # a\n    <script>\n\ncompletion (cut)\n\n    \n");
}

TEST_F(SamplesTest, AnEvaluationsIntervalsAreLines) {
  std::ostringstream out;
  RunReport report(out, {}, /*tensorboard=*/false);
  report.on_start({.output_dir = folder_.path().string()});
  report.on_log({.step = 5,
                 .values = {{"eval_loss", 1.5},
                            {"eval_rewards/exact_match/mean", 0.25},
                            {"eval_rewards/exact_match/ci_low", 0.125},
                            {"eval_rewards/exact_match/ci_high", 0.5},
                            {"eval_rewards/chosen", 3},
                            {"eval_runtime", 1}}});
  EXPECT_NE(out.str().find("eval at step 5  loss 1.5000\n          exact_match 0.250, 95 % 0.125 to 0.500\n"),
            std::string::npos)
      << out.str();
}

TEST_F(SamplesTest, ThePageReadsThemByPrompt) {
  EXPECT_TRUE(read_samples(path_).is_null());
  {
    SamplesFile file(path_, 0);
    for (const std::int64_t step : {0, 3}) file.write(samples(step));
    train::SampleFacts scored = samples(6);
    scored.reward_names = {"exact_match"};
    for (auto& one : scored.completions) one.rewards = {1};
    file.write(scored);
  }
  std::ofstream(path_, std::ios::app) << "[]\n";
  const Json found = read_samples(path_);
  EXPECT_EQ(found["prompts"], Json::parse(R"(["2 + 3?", "Go on:\n"])"));
  EXPECT_EQ(found["all_steps"], 3);
  EXPECT_EQ(found["skipped"], 1);
  ASSERT_EQ(found["steps"].size(), 3U);
  EXPECT_EQ(found["steps"][0], Json::parse(R"({"step": 0, "completions": [[0, "answer of step 0", false, {}],
    [1, "\\x1b[2Janswer", true, {}]]})"));
  EXPECT_EQ(found["steps"][2]["completions"][1][3], Json::parse(R"({"exact_match": 1.0})"));
}

TEST_F(SamplesTest, ThePageShowsSomeStepsOfMany) {
  {
    SamplesFile file(path_, 0);
    for (std::int64_t step = 0; step <= 100; ++step) file.write(samples(step, std::string(5'000, 'y')));
  }
  const Json found = read_samples(path_, {.steps = 10, .prompts = 1, .bytes = 5'000});
  EXPECT_EQ(found["all_steps"], 101);
  EXPECT_EQ(found["all_prompts"], 2);
  ASSERT_LE(found["steps"].size(), 10U);
  EXPECT_EQ(found["steps"][0]["step"], 0);
  EXPECT_EQ(found["steps"].back()["step"], 100);
  std::size_t bytes = 0;
  for (const Json& step : found["steps"]) {
    ASSERT_EQ(step["completions"].size(), 1U);
    bytes += step["completions"][0][1].get<std::string>().size();
  }
  EXPECT_LE(bytes, 5'100U);
  EXPECT_GT(bytes, 2'000U);
}

}  // namespace samples_test
}  // namespace hone::report
