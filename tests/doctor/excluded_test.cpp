// The rules of every verdict: a fix is never the value that is set, and a report is asked for only after the
// inputs were excluded.
#include "doctor/excluded.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/file.h"
#include "probe_runs.h"

namespace hone::doctor {
namespace excluded_test {

using Names = std::vector<std::string>;

class FixRules : public ProbeTest {};

base::Verdict with_fix(const std::string& fix) {
  return {.code = "NUM-08", .level = base::Level::kWarn, .what = "a rate", .fix = fix};
}

TEST_F(FixRules, AValueThatIsSetIsNoFix) {
  const config::Plan plan = sft("set", {"--max_length", "512", "--layer_form", "plain"});
  EXPECT_EQ(already_set(plan, with_fix("learning_rate: 1e-4 is a common choice")), Names{"learning_rate"});
  EXPECT_EQ(already_set(plan, with_fix("learning_rate: 0.0001")), Names{"learning_rate"});
  EXPECT_EQ(already_set(plan, with_fix("learning_rate: 2e-4")), Names{});
  EXPECT_EQ(already_set(plan, with_fix("max_length: 512  (keeps 99 % of the targets)")), Names{"max_length"});
  EXPECT_EQ(already_set(plan, with_fix("layer_form: plain, then try again")), Names{"layer_form"});
  EXPECT_EQ(already_set(plan, with_fix("shuffle: true is no option, and neither is this: 1e-4")), Names{});
  EXPECT_EQ(already_set(plan, with_fix("dtype: float32 with bf16: false")), Names{"dtype"});
}

TEST_F(FixRules, WhatIsSetIsDroppedAndTheRestStays) {
  const config::Plan plan = sft("dropped", {"--layer_form", "plain"});
  base::Verdict one = with_fix("layer_form: plain uses autograd; lower learning_rate");
  one.repair = {{"learning_rate", "0.0001"}, {"disable_dropout", "true"}};
  drop_what_is_set(plan, one);
  EXPECT_EQ(one.fix, "lower learning_rate");
  ASSERT_EQ(one.repair.size(), 1U);
  EXPECT_EQ(one.repair[0].first, "disable_dropout");
  // Two options together are a fix as long as one of them is new.
  one = with_fix("dtype: float32 with bf16: false, to see whether precision is the cause");
  drop_what_is_set(plan, one);
  EXPECT_EQ(one.fix, "dtype: float32 with bf16: false, to see whether precision is the cause");
}

TEST(Excluded, IsListedWithWhatExcludesIt) {
  Excluded excluded;
  EXPECT_TRUE(excluded.empty());
  EXPECT_EQ(excluded.text(), "");
  excluded.add("the data", "412 targets").add("learning_rate");
  EXPECT_EQ(excluded.text(), "the data (412 targets); learning_rate");
  base::Verdict one;
  ask_to_report(one, excluded, "layer_form: plain");
  EXPECT_EQ(one.not_this, excluded.text());
  EXPECT_EQ(one.fix, "layer_form: plain; please report this with the file of `hone bug-report`");
}

TEST(Excluded, AReportNeedsOne) {
  EXPECT_THROW(report_fix(Excluded()), base::InternalError);
}

// A verdict that asks for a report has gone through report_fix().
TEST(Excluded, NoOtherFileAsksForAReport) {
  const fs::path doctor = fs::path(HONE_SOURCE_DIR) / "src" / "doctor";
  for (const auto& entry : fs::recursive_directory_iterator(doctor)) {
    if (!entry.is_regular_file() || entry.path().extension() != ".cpp") continue;
    // a crash has its report file; what it ran is named there
    if (entry.path().filename() == "excluded.cpp" || entry.path().filename() == "crash_text.cpp") continue;
    const std::string text = base::read_text(entry.path());
    EXPECT_EQ(text.find("report this"), std::string::npos) << entry.path();
    EXPECT_EQ(text.find("report it"), std::string::npos) << entry.path();
  }
}

}  // namespace excluded_test
}  // namespace hone::doctor
