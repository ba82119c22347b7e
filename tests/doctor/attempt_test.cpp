// An error inside a look of the doctor is a note with its name, and the examination goes on: injected into
// every look.
#include "doctor/attempt.h"

#include <set>
#include <stdexcept>

#include "base/error.h"
#include "base/process/stop_request.h"
#include "doctor/probe_runs.h"

namespace hone::doctor {
namespace attempt_test {

using base::Level;

class AttemptTest : public ProbeTest {
 protected:
  void TearDown() override {
    inject_into_looks({});
    ProbeTest::TearDown();
  }

  static Verdicts all_of(const Examination& examination) {
    Verdicts out;
    for (const ExamPart& part : examination.parts)
      out.insert(out.end(), part.verdicts.begin(), part.verdicts.end());
    return out;
  }

  // The looks of a run, by their names.
  static std::set<std::string> looks_of(train::OpenedRun& run) {
    std::set<std::string> out;
    inject_into_looks([&out](std::string_view name) { out.emplace(name); });
    examine(run, {});
    inject_into_looks({});
    return out;
  }

  static void expect_a_note(train::OpenedRun& run, const std::string& broken,
                            const std::function<void()>& fault) {
    inject_into_looks([&](std::string_view name) {
      if (name == broken) fault();
    });
    const Examination found = examine(run, {});
    inject_into_looks({});
    EXPECT_FALSE(found.failed()) << broken << "\n" << describe(all_of(found));
    EXPECT_EQ(found.parts.size(), exam_parts(run.data.samples(), Depth::kRun).size()) << broken;
    int notes = 0;
    for (const base::Verdict& one : all_of(found)) {
      if (!is_failed_attempt(one)) continue;
      notes += 1;
      EXPECT_EQ(one.level, Level::kNote);
      EXPECT_EQ(one.what, "probe " + broken + " could not run");
      EXPECT_NE(one.evidence.find("injected"), std::string::npos) << one.evidence;
    }
    EXPECT_GE(notes, 1) << broken;
  }
};

TEST_F(AttemptTest, AnErrorInAnyLookIsANoteWithItsName) {
  for (const config::Plan& plan : {sft("sft"), grpo("grpo"), dpo("dpo")}) {
    const auto run = open(plan);
    const std::set<std::string> looks = looks_of(*run);
    EXPECT_GE(looks.size(), 20U);
    EXPECT_TRUE(looks.contains("gradient") && looks.contains("config: learning rate") &&
                looks.contains("data: template"));
    for (const std::string& look : looks) {
      const bool first = look.size() % 2 == 0;  // both kinds of error
      expect_a_note(*run, look, [&] {
        if (first)
          throw base::UserError({"the probe's prompt", "32 positions", "40 tokens, injected", "", ""});
        throw std::runtime_error("injected");
      });
    }
  }
}

// What the run's own rows end in is still the run's failure.
TEST_F(AttemptTest, AnErrorThatTheRunMeetsTooIsAFailure) {
  const auto run = open(sft("own"));
  break_method(*run, [](const train::RehearsalRequest&, train::Rehearsal&) {
    throw base::UserError(
        {"rows.jsonl:1", "finite numbers", "nan (NUM-02)", "the run's own", "another model"});
  });
  const Examination found = examine(*run, {});
  EXPECT_TRUE(found.failed());
  EXPECT_VERDICT(all_of(found), "NUM-02", Level::kFail, "nan");
}

TEST_F(AttemptTest, ARequestToStopPasses) {
  const auto stops = []() -> Verdicts { throw base::StopCut(); };
  EXPECT_THROW(attempt("any", stops), base::StopCut);
}

}  // namespace attempt_test
}  // namespace hone::doctor
