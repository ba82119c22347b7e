// What a DPO run shows: the page before step 1 and a step's line.
#include <gtest/gtest.h>

#include "report/terminal/progress_line.h"
#include "report/terminal/start_page.h"

namespace hone::report {
namespace preference_report_test {

void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nin: " << text;
}

TEST(PreferenceReport, StartPageSaysWhatPairsTheRunHas) {
  train::StartFacts facts;
  facts.method = train::PreferenceStartFacts{.data = {.rows = 12,
                                                      .kept = 10,
                                                      .implicit = true,
                                                      .tokens = 2000,
                                                      .completion_tokens = 900,
                                                      .pairs_cut = 3,
                                                      .prompts_too_long = 2,
                                                      .equal = 1,
                                                      .boundary_mismatches = 4,
                                                      .longest = 300,
                                                      .mean_chosen = 30,
                                                      .mean_rejected = 60},
                                             .eval_pairs = 5,
                                             .loss = "sigmoid, beta 0.1",
                                             .reference = "the base without the adapter"};
  const std::string page = start_page(facts, {});
  expect_part(page,
              "data      10 pairs, 2,000 tokens, 900 of them in completions; chosen 30 and rejected 60 on "
              "average, longest sequence 300\n");
  expect_part(page, "the prompt is the longest common prefix of chosen and rejected");
  expect_part(page, "1 pair has the same tokens on both sides: it has no gradient (PREF-01)");
  expect_part(page, "2 pairs dropped: the prompt fills max_length");
  expect_part(page, "3 pairs cut at max_length");
  expect_part(page, "4 pairs whose prompt is tokenized differently");
  expect_part(page, "rejected completions are 100 % longer: the model may learn length (PREF-02)");
  expect_part(page, "evaluated on 5 pairs");
  expect_part(page, "loss      sigmoid, beta 0.1\nreference the base without the adapter\n");
  std::get<train::PreferenceStartFacts>(facts.method).data = {
      .rows = 10, .kept = 10, .mean_chosen = 30, .mean_rejected = 35};
  EXPECT_EQ(start_page(facts, {}).find("PREF"), std::string::npos);
}

TEST(PreferenceReport, AStepsLine) {
  train::StepFacts facts;
  facts.step = 3;
  facts.loss = 0.6543;
  facts.grad_norm = 1.25;
  facts.learning_rate = 1e-6;
  facts.metrics = {{"rewards/margins", 0.0784}, {"rewards/accuracies", 0.625}, {"logps/chosen", -42.25}};
  facts.tokens_this_step = 640;
  facts.seconds = 2;
  EXPECT_EQ(
      ProgressLine({}).text(facts, 10),
      "step  3/10  loss 0.6543  margin 0.078  right 62%  logp -42.2  grad 1.25  lr 1.00e-06  320 tok/s  "
      "left 14 s");
}

}  // namespace preference_report_test
}  // namespace hone::report
