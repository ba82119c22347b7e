// The page that a run writes: at its start, at logging steps, at its end, after a resume, and on a full disk.
#include "report/page/run_page.h"

#include <gtest/gtest.h>

#include <sstream>

#include "report/page/page_text.h"
#include "report/rollouts.h"
#include "report/run_report.h"
#include "train/saves/run_folder.h"

namespace hone::report {
namespace page_run_test {

using base::Json;

class PageOfRun : public testing::Test {
 protected:
  // A run of the steps after `first`; `ends`: on_finish is told, as an error does not.
  std::string run(std::int64_t first, std::int64_t last, bool ends = true, bool interrupted = false) {
    std::ostringstream out;
    {
      RunReport report(out, {}, /*tensorboard=*/false);
      report.add_follower(std::make_unique<RunPage>(
          RunPageOptions{.method = "grpo",
                         .plan = {{.name = "seed", .value = "1", .standard = "42", .differs = true}},
                         .least_seconds = 0,
                         .most_share = 1e9}));
      train::StartFacts start;
      start.output_dir = folder_.path().string();
      start.first_step = first;
      start.total_steps = 9;
      start.example = {{.text = "Q: ", .supervised = false},
                       {.text = "2", .supervised = false},
                       {.text = "\x1b[1mA", .supervised = true}};
      report.on_start(start);
      report.on_verdict({.code = "DATA-01", .level = base::Level::kWarn, .what = "before the first step"}, 0);
      report.start_followers();
      for (std::int64_t step = first + 1; step <= last; ++step) {
        report.on_rollout(rollouts(step));
        report.on_log({.step = step, .epoch = 0.1, .values = {{"loss", 1.0 / static_cast<double>(step)}}});
        if (step == 2)
          report.on_verdict({.code = "RL-01", .level = base::Level::kNote, .what = "of step 2"}, step);
        if (step == 4)
          report.on_verdict({.code = "RL-02", .level = base::Level::kWarn, .what = "of step 4"}, step);
        report.on_step({.step = step}, 9);
      }
      if (ends) report.on_finish(folder_.path().string(), interrupted, last);
      while_open_ = ends ? Json() : data();
    }
    return out.str();
  }

  std::string page() const { return base::read_text(folder_.path() / train::kPageFile); }
  Json data() const {
    const std::string text = page();
    const std::string begin = "type=\"application/json\">";
    const std::size_t at = text.find(begin) + begin.size();
    return Json::parse(text.substr(at, text.find("</script>", at) - at));
  }
  std::vector<std::string> codes() const {
    std::vector<std::string> out;
    const Json page = data();
    for (const Json& one : page["runs"][0]["verdicts"]) out.push_back(one["code"]);
    return out;
  }

  TestFolder folder_{"page_of_run"};
  Json while_open_;
};

TEST_F(PageOfRun, HoldsWhatTheRunHas) {
  const std::string said = run(0, 4);
  EXPECT_NE(said.find("page      " + (folder_.path() / train::kPageFile).string() + "\n"), std::string::npos)
      << said;
  const Json page = data(), &one = page["runs"][0];
  EXPECT_EQ(page["refresh"], 0);
  EXPECT_EQ(one["name"], folder_.path().string());
  EXPECT_EQ(one["method"], "grpo");
  EXPECT_EQ(one["state"], "finished");
  EXPECT_EQ(one["total_steps"], 9);
  EXPECT_EQ(one["numbers"]["step"], 4);
  EXPECT_EQ(one["x"], Json::parse("[[1,2,3,4]]"));
  EXPECT_EQ(one["series"][0]["mean"], Json::parse("[1,0.5,0.333333,0.25]"));
  EXPECT_EQ(one["example"], Json::parse(R"([["Q: 2",false],["\\x1b[1mA",true]])"));
  EXPECT_EQ(one["completion_files"], 4);
  EXPECT_EQ(one["completions"][3]["completions"][0][1], "5");
  EXPECT_EQ(codes(), (std::vector<std::string>{"DATA-01", "RL-01", "RL-02"}));
  EXPECT_EQ(one["plan"][0]["standard"], "42");
  EXPECT_GE(one["start"].size(), 2U);
}

TEST_F(PageOfRun, GoesOnAfterAResumeWithoutWhatIsMadeAgain) {
  run(0, 4);
  run(3, 6);
  const Json page = data(), &one = page["runs"][0];
  EXPECT_EQ(one["x"], Json::parse("[[1,2,3,4,5,6]]"));
  EXPECT_EQ(one["resumed_at"], Json::parse("[3]"));
  EXPECT_EQ(codes(), (std::vector<std::string>{"RL-01", "DATA-01", "RL-02"}));
  run(2, 3);
  EXPECT_EQ(data()["runs"][0]["resumed_at"], Json::parse("[2]"));
  run(0, 1);
  EXPECT_EQ(data()["runs"][0]["resumed_at"], Json::array()) << "a new run in the same folder";
  EXPECT_EQ(codes(), (std::vector<std::string>{"DATA-01"}));
}

TEST_F(PageOfRun, SaysHowTheRunEnded) {
  run(0, 2, true, /*interrupted=*/true);
  EXPECT_EQ(data()["runs"][0]["state"], "stopped");
  run(0, 3, /*ends=*/false);
  EXPECT_EQ(while_open_["runs"][0]["state"], "running");
  EXPECT_EQ(while_open_["runs"][0]["numbers"]["step"], 3);
  EXPECT_GT(while_open_["refresh"], 0) << "an open page reads itself again";
  EXPECT_EQ(data()["runs"][0]["state"], "failed");
  EXPECT_EQ(data()["refresh"], 0);
}

TEST_F(PageOfRun, APageThatCannotBeWrittenIsOneNote) {
  base::fs::create_directories(folder_.path() / train::kPageFile);  // a folder in its place
  const std::string said = run(0, 5);
  EXPECT_NE(said.find("note      the page is not written: "), std::string::npos) << said;
  EXPECT_EQ(said.find("not written", said.find("not written") + 1), std::string::npos);
  EXPECT_NE(said.find("done      adapter in"), std::string::npos);
  EXPECT_EQ(said.find("page      "), std::string::npos);
}

TEST(PageFacts, AreReadAsTheyWereWritten) {
  TestFolder folder("page_facts");
  PageFacts facts{.end = RunEnd::kStopped, .started = 7, .resumed_at = {3, 5}, .total_steps = 9};
  facts.start = {{"data", "2 rows\nof text"}};
  facts.example = {{.text = "a", .supervised = true}};
  facts.verdicts = {{4, Json{{"code", "RL-01"}}}};
  write_page_facts(folder.path(), facts);
  EXPECT_EQ(facts_json(read_page_facts(folder.path())), facts_json(facts));
  EXPECT_EQ(facts_json(read_page_facts(folder.path() / "absent")), facts_json({}));
  for (
      const char* damaged :
      {"", "{", "[]",
       "{\"format\":\"hone-page-1\",\"start\":[3,[1]],\"example\":{},\"verdicts\":[1],\"resumed_at\":[\"a\"]}"}) {
    base::write_file_atomic(folder.path() / train::kPageFactsFile, damaged);
    EXPECT_EQ(facts_json(read_page_facts(folder.path())), facts_json({})) << damaged;
  }
}

}  // namespace page_run_test
}  // namespace hone::report
