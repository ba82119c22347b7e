// What is kept of an examination: the same run takes it, anything that a rehearsed step depends on does not.
#include "doctor/exam_cache.h"

#include <atomic>
#include <chrono>

#include "doctor/probe_runs.h"

namespace hone::doctor {
namespace exam_cache_test {

using base::Level;

class ExamCacheTest : public ProbeTest {
 protected:
  fs::path folder() const { return root_ / "cache"; }
  fs::path program() const { return root_ / "hone"; }
  void SetUp() override {
    ProbeTest::SetUp();
    base::write_file_atomic(program(), "a program");
  }

  std::size_t kept() const {
    std::error_code none;
    const auto files = fs::directory_iterator(folder(), none);
    return none ? 0 : static_cast<std::size_t>(std::distance(begin(files), end(files)));
  }

  static ExamPart part(Level level = Level::kWarn) {
    return {.name = "gradient",
            .verdicts = {{.code = "NUM-08",
                          .level = level,
                          .part = "gradient",
                          .what = "what",
                          .evidence = "evidence",
                          .cause = "cause",
                          .not_this = "not this",
                          .fix = "fix",
                          .cost = "cost"}}};
  }
  void keep(const config::Plan& plan, const ExamPart& what = part()) {
    const auto run = open(plan);
    ExamCache cache(folder(), program(), *run);
    cache.add(what);
    cache.write();
  }
  std::optional<ExamPart> found(const config::Plan& plan) {
    const auto run = open(plan);
    return ExamCache(folder(), program(), *run).find("gradient");
  }
};

TEST_F(ExamCacheTest, TheSameRunFindsEveryField) {
  keep(sft("a"));
  const auto same = found(sft("b", {"--save_steps", "7", "--report_to", "none"}));
  ASSERT_TRUE(same) << "another output_dir, other checkpoints: the steps are the same";
  ASSERT_EQ(same->verdicts.size(), 1);
  const base::Verdict &is = same->verdicts[0], was = part().verdicts[0];
  EXPECT_EQ(is.level, was.level);
  for (const auto field :
       {&base::Verdict::code, &base::Verdict::part, &base::Verdict::what, &base::Verdict::evidence,
        &base::Verdict::cause, &base::Verdict::not_this, &base::Verdict::fix, &base::Verdict::cost})
    EXPECT_EQ(is.*field, was.*field);
  EXPECT_FALSE(ExamCache(folder(), program(), *open(sft("c"))).find("numerics")) << "another part";
}

TEST_F(ExamCacheTest, AnythingThatAStepDependsOnIsAnotherExamination) {
  keep(sft("a"));
  for (const Words& other : std::vector<Words>{{"--learning_rate", "2e-4"},
                                               {"--lora_r", "4"},
                                               {"--seed", "9"},
                                               {"--max_length", "40"},
                                               {"--threads", "2"},
                                               {"--layer_form", "plain"},
                                               {"--bf16", "false"}})
    EXPECT_FALSE(found(sft("b", other))) << other[0];
  const fs::path rows = root_ / "rows.jsonl";
  base::write_file_atomic(rows,
                          base::read_text(fixtures() / "sft" / "text.jsonl") + "{\"text\": \"one more\"}\n");
  EXPECT_FALSE(found(sft("b", {"--dataset_name", rows.string()}))) << "other rows";
  base::write_file_atomic(program(), "another build");
  EXPECT_FALSE(found(sft("b"))) << "another build";
}

TEST_F(ExamCacheTest, AModelThatWasChangedInPlaceIsAnother) {
  const fs::path model = root_ / "model";
  fs::create_directories(model);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
                           "generation_config.json"})
    fs::copy_file(fixtures() / "tiny_llama" / name, model / name);
  const Words of = {"--model_name_or_path", model.string()};
  keep(sft("a", of));
  EXPECT_TRUE(found(sft("b", of)));
  std::string weights = base::read_text(model / "model.safetensors");
  weights[100'000] = static_cast<char>(weights[100'000] ^ 1);
  base::write_file_atomic(model / "model.safetensors", weights);
  EXPECT_FALSE(found(sft("b", of)));
}

TEST_F(ExamCacheTest, AFailureIsNeverKeptNorAResumedRun) {
  keep(sft("a"), part(Level::kFail));
  EXPECT_EQ(kept(), 0);
  {
    const auto run = open(sft("a", {"--save_steps", "1"}));  // its folder is locked until it is gone
    const std::atomic<bool> stop = false;
    train::begin_run(*run, listener_, stop, nullptr);
  }
  keep(sft("a", {"--resume_from_checkpoint", "true"}));
  keep(sft("b", {"--adapter_name_or_path", (root_ / "a").string()}));
  EXPECT_EQ(kept(), 0) << "their adapter is another each time";
  const auto without = open(sft("c"));
  ExamCache nowhere({}, program(), *without);
  nowhere.add(part());
  nowhere.write();
  EXPECT_FALSE(nowhere.find("gradient"));
}

TEST_F(ExamCacheTest, ADamagedFileIsExaminedAgain) {
  keep(sft("a"));
  ASSERT_EQ(kept(), 1);
  const fs::path file = fs::directory_iterator(folder())->path();
  for (const char* text :
       {"", "{", "[]", "{\"format\": \"hone-examination-1\"}", "{\"format\": \"another\", \"parts\": {}}",
        "{\"format\": \"hone-examination-1\", \"parts\": {\"numerics\": []}}"}) {
    base::write_file_atomic(file, text);
    EXPECT_FALSE(found(sft("b"))) << text;
  }
  // A verdict that is worth nothing is at most ok: a failure is never read from a file.
  base::write_file_atomic(
      file, R"({"format": "hone-examination-1", "parts": {"gradient": [{"level": 3}, {"level": "x"}, {}]}})");
  const auto odd = found(sft("b"));
  ASSERT_TRUE(odd);
  for (const base::Verdict& one : odd->verdicts) EXPECT_EQ(one.level, Level::kOk);
}

TEST_F(ExamCacheTest, TheNewestThirtyTwoAreKept) {
  fs::create_directories(folder());
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 40; ++i) {
    const fs::path file = folder() / ("examination-" + std::to_string(i) + ".json");
    base::write_file_atomic(file, "{}");
    fs::last_write_time(file, now - std::chrono::hours(i + 1));
  }
  base::write_file_atomic(folder() / "another", "");
  keep(sft("a"));
  EXPECT_EQ(kept(), 33) << "32 examinations, and what is no examination";
  EXPECT_TRUE(found(sft("a")));
  EXPECT_TRUE(fs::exists(folder() / "examination-30.json"));
  EXPECT_FALSE(fs::exists(folder() / "examination-31.json"));
}

// A second examination of the same run does not run the model again, and finds the same.
TEST_F(ExamCacheTest, ASecondExaminationTakesWhatTheFirstFound) {
  const auto examined = [&](const std::string& name, bool reuse, int& rehearsals) {
    const auto run = open(sft(name));
    break_method(*run, [&rehearsals](const train::RehearsalRequest&, train::Rehearsal&) { ++rehearsals; });
    return examine(*run, {.program = program(), .cache_dir = folder(), .reuse = reuse});
  };
  int first = 0, second = 0, third = 0;
  // What is measured each time (memory, the machine's speed) is in parts that do not run the model.
  const auto told = [](const Examination& one) {
    std::string out;
    for (const ExamPart& of : one.parts) {
      if (of.name == "gradient" || of.name == "numerics") out += of.name + ": " + describe(of.verdicts);
    }
    return out;
  };
  const std::string once = told(examined("a", true, first));
  const std::string again = told(examined("b", true, second));
  examined("c", false, third);
  EXPECT_GT(first, 0);
  EXPECT_EQ(second, 0);
  EXPECT_EQ(third, first) << "hone doctor looks again";
  EXPECT_NE(once.find("numerics"), std::string::npos);
  EXPECT_EQ(once, again);
}

}  // namespace exam_cache_test
}  // namespace hone::doctor
