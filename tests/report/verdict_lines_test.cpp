#include "report/terminal/verdict_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "report/run_report.h"
#include "report/terminal/wrap_text.h"

namespace hone::report {
namespace verdict_lines_test {

using base::Level;
using base::Verdict;

const std::vector<std::string> kParts = {"config", "data", "gradient", "numerics"};

Verdict failure() {
  return {.code = "GRAD-02",
          .level = Level::kFail,
          .part = "gradient",
          .what = "24 of 96 trainable tensors receive no gradient",
          .evidence = "layers 0 to 5, lora_B: |g| exactly 0 in 2 rehearsed steps",
          .cause = "suspected: they were frozen",
          .not_this = "bf16, batch size: the gradient is absent in fp32 too",
          .fix = "remove freeze_layers",
          .cost = "a quarter of the run"};
}

TEST(VerdictLines, APartThatIsOkIsOneLineWithItsFacts) {
  VerdictLines lines(kParts, {}, false);
  EXPECT_EQ(
      lines.part({.name = "config",
                  .verdicts = {{.level = Level::kOk, .what = "41 options"},
                               {.code = "NUM-09", .level = Level::kOk, .what = "84 steps, 3 of warm-up"}}}),
      "[1/4] config     ok    41 options; 84 steps, 3 of warm-up\n");
  EXPECT_EQ(lines.part({.name = "data", .verdicts = {}}), "[2/4] data       ok  \n");
}

TEST(VerdictLines, AFailureSaysWhatEvidenceCauseNotThisFixCost) {
  VerdictLines lines(kParts, {}, false);
  EXPECT_EQ(lines.part({.name = "gradient", .verdicts = {{.level = Level::kOk, .what = "x"}, failure()}}),
            "[3/4] gradient   FAIL  GRAD-02  24 of 96 trainable tensors receive no gradient\n"
            "        evidence   layers 0 to 5, lora_B: |g| exactly 0 in 2 rehearsed steps\n"
            "        cause      suspected: they were frozen\n"
            "        not this   bf16, batch size: the gradient is absent in fp32 too\n"
            "        fix        remove freeze_layers\n"
            "        cost       a quarter of the run\n");
  EXPECT_EQ(lines.not_run(), "not run  config, data, numerics (blocked by GRAD-02)\n");
  EXPECT_EQ(lines.result(2.13, false),
            "RESULT  FAIL  1 error. Nothing was trained; the checks took 2.1 s.   exit 2\n");
}

TEST(VerdictLines, ARepairIsOffered) {
  VerdictLines lines(kParts, {}, false);
  Verdict one = failure();
  one.repair = {{"recompute", "layer"}};
  EXPECT_NE(lines.part({.name = "gradient", .verdicts = {one}})
                .find("fix        remove freeze_layers   [--fix applies it]"),
            std::string::npos);
}

TEST(VerdictLines, TheWorstComesFirstAndANoteHasOneLine) {
  VerdictLines lines(kParts, {}, false);
  const std::string text = lines.part(
      {.name = "data",
       .verdicts = {
           {.code = "GRAD-03", .level = Level::kNote, .what = "expected", .evidence = "unseen"},
           {.code = "DATA-02", .level = Level::kWarn, .what = "3 rows cut", .fix = "max_length: 900"}}});
  EXPECT_EQ(text,
            "[2/4] data       warn  DATA-02  3 rows cut\n"
            "        fix        max_length: 900\n"
            "[2/4] data       note  GRAD-03  expected\n");
  EXPECT_EQ(lines.exit_code(false), 0);
  EXPECT_EQ(lines.exit_code(true), 1);
  EXPECT_EQ(lines.result(61, true), "RESULT  OK    1 warning, 1 part, 1 min 01 s.   exit 1\n");
}

TEST(VerdictLines, FitsAScreenUnlessMoreIsAskedFor) {
  doctor::ExamPart part{.name = "data"};
  for (int i = 0; i < 30; ++i) {
    Verdict one = failure();
    one.level = i < 3 ? Level::kFail : Level::kWarn;
    one.what = "number " + std::to_string(i) + "x, some words, " + std::string(200, 'x') + " end";
    part.verdicts.push_back(one);
  }
  const auto lines_of = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  VerdictLines shown(kParts, {}, false);
  const std::string text = shown.part(part);
  EXPECT_LE(lines_of(text), 40);
  for (const char* each : {"number 0x", "number 1x", "number 2x"})
    EXPECT_NE(text.find(each), std::string::npos);
  EXPECT_NE(shown.result(1, false).find("more with -v"), std::string::npos);
  VerdictLines all(kParts, {}, true);
  EXPECT_GT(lines_of(all.part(part)), 150);
  EXPECT_EQ(all.result(1, false).find("more with -v"), std::string::npos);
}

TEST(VerdictLines, DataCannotSteerTheTerminal) {
  VerdictLines lines(kParts, {}, false);
  Verdict one = failure();
  one.evidence = "row 3: '\x1b[2J'";
  EXPECT_EQ(lines.part({.name = "data", .verdicts = {one}}).find('\x1b'), std::string::npos);
}

TEST(VerdictLines, OfARunNameTheStep) {
  EXPECT_EQ(run_verdict_lines({.level = Level::kOk, .part = "doctor", .what = "config, data; 2.1 s"}, 0, {}),
            "doctor    ok  config, data; 2.1 s\n");
  EXPECT_EQ(run_verdict_lines(
                {.code = "RL-03", .level = Level::kFail, .what = "98 % are cut", .fix = "raise it"}, 5, {}),
            "doctor    step 5  FAIL  RL-03  98 % are cut\n"
            "          fix       raise it\n");
}

TEST(VerdictLines, ARunReportSaysThemOnALineOfTheirOwn) {
  std::ostringstream out;
  RunReport report(out, {.interactive = true}, false);
  train::StepFacts facts;
  facts.step = 3;
  report.on_step(facts, 10);
  report.on_verdict({.code = "RL-01", .level = Level::kNote, .what = "a loss of 0 is healthy"}, 3);
  EXPECT_TRUE(out.str().ends_with("\ndoctor    step 3  note  RL-01  a loss of 0 is healthy\n")) << out.str();
}

TEST(VerdictLines, Json) {
  Verdict one = failure();
  one.repair = {{"recompute", "layer"}};
  const base::Json json = examination_json(
      {{.name = "config", .verdicts = {}, .seconds = 0.5}, {.name = "gradient", .verdicts = {one}}}, kParts,
      1.5, false);
  EXPECT_EQ(json["result"], "fail");
  EXPECT_EQ(json["exit"], 2);
  EXPECT_EQ(json["not_run"], (std::vector<std::string>{"data", "numerics"}));
  EXPECT_EQ(json["parts"][1]["verdicts"][0]["code"], "GRAD-02");
  EXPECT_EQ(json["parts"][1]["verdicts"][0]["level"], "fail");
  EXPECT_EQ(json["parts"][1]["verdicts"][0]["repair"]["recompute"], "layer");
  EXPECT_FALSE(verdict_json({.what = "x"}).contains("evidence"));
}

TEST(WrapText, BreaksAtSpacesAndKeepsWords) {
  EXPECT_EQ(wrap_text("one two three", 2, 9), "one two\n  three");
  EXPECT_EQ(wrap_text("", 2, 9), "");
  EXPECT_EQ(wrap_text("averyverylongword x", 2, 9), "averyverylongword\n  x");
  EXPECT_EQ(wrap_text("a\nb", 1, 9), "a\n b");
}

}  // namespace verdict_lines_test
}  // namespace hone::report
