// hone report and hone compare: the folders, and a run's options beside their defaults.
#include "config/commands/report_plans.h"

#include "base/helpers.h"
#include "config/helpers.h"
#include "config/write_plan.h"

namespace hone::config {
namespace report_plans_test {

using base::expect_says;
using Words = std::vector<std::string>;

class ReportPlans : public ConfigTest {
 protected:
  void SetUp() override {
    ConfigTest::SetUp();
    first_ = folder_of(write("runs/first/metrics.jsonl", ""));
    second_ = folder_of(write("runs/second/metrics.jsonl", ""));
    empty_ = folder_of(write("runs/empty/other", ""));
  }
  static std::string folder_of(const std::string& file) {
    return std::filesystem::path(file).parent_path().string();
  }
  std::string first_, second_, empty_;
};

TEST_F(ReportPlans, TheFirstWordsAreTheRuns) {
  EXPECT_EQ(parse_report({first_}).runs, Words{first_});
  const ReportPlan plan = parse_report({first_, second_, "--output", "x.html"});
  EXPECT_EQ(plan.runs, (Words{first_, second_}));
  EXPECT_EQ(plan.output, "x.html");
  EXPECT_FALSE(plan.serve);
  EXPECT_TRUE(plan.notes.empty());
  const ReportPlan served = parse_report({first_, "--serve", "--port", "8080"});
  EXPECT_TRUE(served.serve);
  EXPECT_EQ(served.port, 8080);
}

TEST_F(ReportPlans, OfSeveralFoldersThoseWithoutMetricsAreLeftOut) {
  const ReportPlan plan = parse_report({first_, empty_, path("train.jsonl")});
  EXPECT_EQ(plan.runs, Words{first_});
  EXPECT_EQ(plan.notes, (Words{"'" + empty_ + "' is left out: there is no metrics.jsonl in it",
                               "'" + path("train.jsonl") + "' is left out: it is no folder"}));
}

TEST_F(ReportPlans, MistakesAreSentences) {
  expect_says(error_of([] { parse_report({}); }),
              {"hone report", "the folder of a run", "write hone report runs/first"});
  expect_says(error_of([&] { parse_report({empty_}); }),
              {"a run that has logged a step", "there is no metrics.jsonl in it", "output_dir"});
  expect_says(error_of([&] { parse_report({path("none")}); }), {"no such folder"});
  expect_says(error_of([&] { parse_report({first_, "--output", empty_}); }),
              {"a file's name", "report.html"});
  expect_says(error_of([&] { parse_report({first_, "--prot", "1"}); }), {"Did you mean", "port"});
  expect_says(error_of([&] { parse_report({first_, "--serve", "--port", "70000"}); }), {"port", "70000"});
  expect_says(error_of([] { parse_compare({}); }), {"the folders of two runs", "none"});
  expect_says(error_of([&] { parse_compare({first_}); }), {"the folders of two runs", "one"});
  expect_says(error_of([&] { parse_compare({first_, empty_}); }),
              {"hone compare", "there is no metrics.jsonl in it"});
  EXPECT_EQ(parse_compare({first_, second_}).second, second_);
}

TEST_F(ReportPlans, OptionsOfARunBesideTheirDefaults) {
  const RunOptions options = run_options_of(write_plan(run({"--learning_rate", "0.5", "--output_dir", "x"})));
  EXPECT_EQ(options.method, "sft");
  const auto row = [&](const std::string& name) {
    const auto at = std::ranges::find(options.rows, name, &OptionRow::name);
    return at == options.rows.end() ? OptionRow{} : *at;
  };
  EXPECT_EQ(row("learning_rate").value, "0.5");
  EXPECT_EQ(row("learning_rate").standard, "2e-05");
  EXPECT_TRUE(row("learning_rate").differs);
  EXPECT_FALSE(row("weight_decay").differs);
  EXPECT_EQ(row("report_page").value, "true");
  EXPECT_FALSE(row("lora_r").group.empty());
  EXPECT_EQ(read_run_options(first_).method, "");
  write("runs/second/plan.yaml", "a: [1\n");
  EXPECT_NE(read_run_options(second_).mistake.find("plan.yaml cannot be read"), std::string::npos);
}

}  // namespace report_plans_test
}  // namespace hone::config
