// Resumed runs on the tiny Llama: from an earlier checkpoint, past a damaged one, after an error that ended
// them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "base/files/safetensors.h"
#include "base/json.h"
#include "config/parse.h"
#include "rewards/reward.h"
#include "train/opening/open_run.h"
#include "train/saves/checkpoint.h"
#include "train/saves/checkpoint_check.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace resume_test {

namespace fs = base::fs;
using base::Json;

struct Killed {};

class Watcher final : public RunListener {
 public:
  void on_start(const StartFacts& facts) override { notes = facts.notes; }
  void on_step(const StepFacts& facts, std::int64_t) override {
    if (facts.step == stop_after) stop = true;
    if (facts.step == kill_after) throw Killed();  // nothing after this step is saved, as with kill -9
  }
  void on_save(const std::string& folder, std::int64_t) override { saves.push_back(folder); }
  std::vector<std::string> notes, saves;
  std::int64_t stop_after = 0, kill_after = 0;
  std::atomic<bool> stop = false;
};

// The run's own method, with an error in the place of one call.
class Failing final : public TrainingMethod {
 public:
  explicit Failing(std::unique_ptr<TrainingMethod> inner) : inner_(std::move(inner)) {}
  void resume_after(std::int64_t steps) override { inner_->resume_after(steps); }
  StepLoss backward(std::int64_t step) override {
    if (step == at_step && fail) fail();
    return inner_->backward(step);
  }
  void on_step(std::int64_t step) override { inner_->on_step(step); }
  bool has_evaluation() const override { return inner_->has_evaluation(); }
  EvalFacts evaluate() override {
    if (evaluations++ == at_evaluation && fail) fail();
    return inner_->evaluate();
  }
  std::int64_t steps_per_epoch() const override { return inner_->steps_per_epoch(); }
  std::int64_t total_steps() const override { return inner_->total_steps(); }
  double epoch_after(std::int64_t step) const override { return inner_->epoch_after(step); }
  StateFiles state_files() const override { return inner_->state_files(); }
  Rehearsal rehearse(const RehearsalRequest& request) override { return inner_->rehearse(request); }

  std::function<void()> fail;
  std::int64_t at_step = -1, at_evaluation = -1, evaluations = 0;

 private:
  std::unique_ptr<TrainingMethod> inner_;
};

[[noreturn]] void fail_as_a_reward() {
  throw base::UserError({.where = "the reward",
                         .expected = "an answer",
                         .found = "none",
                         .cause = "the server is down",
                         .fix = "start it"});
}

class ResumeTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(root_); }

  config::Plan plan(const std::string& name, const std::vector<std::string>& more = {}) {
    const fs::path fixtures = fs::path(HONE_FIXTURES) / "parity";
    std::vector<std::string> words = {"--model_name_or_path",
                                      (fixtures / "tiny_llama").string(),
                                      "--dataset_name",
                                      (fixtures / "sft" / "text.jsonl").string(),
                                      "--use_peft",
                                      "--bf16",
                                      "false",
                                      "--max_steps",
                                      "6",
                                      "--save_steps",
                                      "2",
                                      "--per_device_train_batch_size",
                                      "2",
                                      "--learning_rate",
                                      "1e-3",
                                      "--threads",
                                      "1",
                                      "--logging_steps",
                                      "3",
                                      "--lora_r",
                                      "2",
                                      "--lora_dropout",
                                      "0.1",
                                      "--output_dir",
                                      (root_ / name).string()};
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(config::Method::kSft, words);
  }
  LoopResult go(const std::string& name, const std::vector<std::string>& more = {}) {
    watcher_ = std::make_unique<Watcher>();
    return go_on(name, more);
  }
  LoopResult go_on(const std::string& name, const std::vector<std::string>& more = {}) {
    const auto run = open_run(plan(name, more), *watcher_);
    return begin_run(*run, *watcher_, watcher_->stop);
  }
  void stop_after(std::int64_t step, const std::string& name, const std::vector<std::string>& more = {}) {
    watcher_ = std::make_unique<Watcher>();
    watcher_->stop_after = step;
    EXPECT_TRUE(go_on(name, more).interrupted);
  }
  void kill_after(std::int64_t step, const std::string& name, const std::vector<std::string>& more = {}) {
    watcher_ = std::make_unique<Watcher>();
    watcher_->kill_after = step;
    EXPECT_THROW(go_on(name, more), Killed);
  }
  // What ends a run whose method fails as `prepare` says.
  std::string ended_with(const std::string& name, const std::function<void(Failing&)>& prepare,
                         const std::vector<std::string>& more = {}) {
    watcher_ = std::make_unique<Watcher>();
    const auto run = open_run(plan(name, more), *watcher_);
    auto method = std::make_unique<Failing>(std::move(run->method));
    method->fail = fail_as_a_reward;
    prepare(*method);
    run->method = std::move(method);
    return said([&] { begin_run(*run, *watcher_, watcher_->stop); });
  }
  static std::string said(const std::function<void()>& call) {
    try {
      call();
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "";
  }

  std::vector<std::string> from(const std::string& name, const std::string& checkpoint) {
    return {"--resume_from_checkpoint",
            checkpoint == "true" ? checkpoint : (root_ / name / checkpoint).string()};
  }
  std::vector<std::int64_t> steps(const std::string& name) { return checkpoint_steps(root_ / name); }
  bool noted(const std::string& text) {
    return std::any_of(watcher_->notes.begin(), watcher_->notes.end(),
                       [&](const std::string& one) { return one.find(text) != std::string::npos; });
  }
  std::string file(const fs::path& path) { return base::read_text(root_ / path); }
  void flip(const fs::path& path, std::size_t at, int bit = 0) {
    std::string bytes = file(path);
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ (1 << bit));
    std::ofstream(root_ / path, std::ios::binary) << bytes;
  }
  // The run's log, but for times.
  Json history(const std::string& run) {
    Json log = base::parse_json(file(fs::path(run) / kTrainerStateFile), run).at("log_history");
    log.erase(log.size() - 1);
    for (Json& one : log) {
      for (const char* name : {"eval_runtime", "eval_samples_per_second", "eval_steps_per_second"})
        one.erase(name);
    }
    return log;
  }
  void expect_same_end(const std::string& one, const std::string& other) {
    EXPECT_EQ(file(fs::path(one) / kAdapterWeightsFile), file(fs::path(other) / kAdapterWeightsFile));
    EXPECT_EQ(file(fs::path(one) / "checkpoint-6" / kOptimizerFile),
              file(fs::path(other) / "checkpoint-6" / kOptimizerFile));
    EXPECT_EQ(history(one), history(other));
  }
  static void expect_has(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }

  using Steps = std::vector<std::int64_t>;
  std::unique_ptr<Watcher> watcher_;
  fs::path root_ = fs::temp_directory_path() / ("hone_resume_" + std::to_string(getpid()));
};

// ---- branches

TEST_F(ResumeTest, ABranchKeepsWhatItSaves) {
  go("run");
  const std::string whole = file("run/adapter_model.safetensors");
  std::vector<std::string> one = from("run", "checkpoint-2");
  one.insert(one.end(), {"--save_total_limit", "1"});
  stop_after(3, "run", one);
  EXPECT_EQ(steps("run"), (Steps{3})) << "the newest written, whatever numbers others have";
  EXPECT_TRUE(noted("checkpoint-4, checkpoint-6 go to abandoned-1-after-2"));
  EXPECT_TRUE(abandoned_checkpoints(root_ / "run").empty()) << "where save_total_limit counts them";
  go("run", from("run", "true"));
  EXPECT_EQ(file("run/adapter_model.safetensors"), whole);
}

TEST_F(ResumeTest, AKilledBranchGoesOnAsTheBranch) {
  go("run");
  std::vector<std::string> other = from("run", "checkpoint-2");
  other.insert(other.end(), {"--learning_rate", "5e-3"});
  kill_after(3, "run", other);
  EXPECT_EQ(steps("run"), (Steps{2}));
  EXPECT_EQ(checkpoint_steps(root_ / "run" / "abandoned-1-after-2"), (Steps{4, 6}));
  stop_after(3, "run", {"--resume_from_checkpoint", "true", "--learning_rate", "5e-3"});
  EXPECT_FALSE(noted("abandoned"));
  EXPECT_EQ(steps("run"), (Steps{2, 3}));

  const std::string moved = said([&] { go("run", from("run", "checkpoint-4")); });
  expect_has(moved, "name " + (root_ / "run" / "abandoned-1-after-2" / "checkpoint-4").string());
  // The abandoned run, taken up again.
  go("run", from("run", "abandoned-1-after-2/checkpoint-4"));
  EXPECT_TRUE(noted("abandoned-1-after-2/checkpoint-4 comes back"));
  EXPECT_EQ(steps("run"), (Steps{2, 4, 6}));
  EXPECT_EQ(checkpoint_steps(root_ / "run" / "abandoned-2-after-2"), (Steps{3}));
  go("whole");
  expect_same_end("whole", "run");
}

TEST_F(ResumeTest, AnotherFolderGoesOnFromAnAbandonedCheckpoint) {
  go("run");
  kill_after(3, "run", from("run", "checkpoint-2"));
  std::vector<std::string> elsewhere = from("run", "abandoned-1-after-2/checkpoint-4");
  go("other", elsewhere);
  EXPECT_EQ(steps("other"), (Steps{6}));
  EXPECT_EQ(checkpoint_steps(root_ / "run" / "abandoned-1-after-2"), (Steps{4, 6}));
  expect_has(said([&] { go("other", elsewhere); }), "an earlier run wrote here");
}

TEST_F(ResumeTest, OpeningARunMovesNothing) {
  go("run");
  Watcher watcher;
  const auto run = open_run(plan("run", from("run", "checkpoint-2")), watcher);  // as the doctor does
  EXPECT_EQ(steps("run"), (Steps{2, 4, 6}));
}

// ---- optimizers and schedules

TEST_F(ResumeTest, TheStateOfEachOptimizerIsBack) {
  const std::vector<std::vector<std::string>> settings = {
      {"--optim", "adafactor", "--weight_decay", "0.1"},
      {"--optim", "sgd", "--learning_rate", "0.1"},  // without any state
      // 64 x 64: tensors that are large enough for 8 bits
      {"--optim", "adamw_bnb_8bit", "--lora_r", "64"},
      {"--optim", "rmsprop", "--optim_args", "momentum=0.9,centered=True", "--lr_scheduler_type",
       "cosine_with_min_lr", "--lr_scheduler_kwargs", "{\"min_lr_rate\": 0.1}"}};
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string whole = "whole" + std::to_string(i), run = "run" + std::to_string(i);
    go(whole, settings[i]);
    stop_after(3, run, settings[i]);
    std::vector<std::string> more = from(run, "true");
    more.insert(more.end(), settings[i].begin(), settings[i].end());
    go(run, more);
    EXPECT_TRUE(watcher_->notes.empty() || !noted("differs")) << settings[i][1];
    expect_same_end(whole, run);
  }
  const auto state = base::SafetensorsFile::open(root_ / "run2" / "checkpoint-6" / kOptimizerFile);
  ASSERT_NE(state.find("state1"), nullptr);
  EXPECT_EQ(state.find("state1")->dtype, base::DType::kU8);
  EXPECT_EQ(state.metadata().at("optimizer"), "adamw_8bit");
}

TEST_F(ResumeTest, AnotherOptimizersStateIsRefused) {
  stop_after(2, "run", {"--optim", "rmsprop"});
  const std::string found = said([&] { go("run", from("run", "true")); });
  expect_has(found, "expected the state of adamw, as optim says");
  expect_has(found, "that of rmsprop");
  std::vector<std::string> more = from("run", "true");
  more.insert(more.end(), {"--optim", "rmsprop", "--optim_args", "momentum=0.9"});
  expect_has(said([&] { go("run", more); }), "tensor momentum_buffer");
}

TEST_F(ResumeTest, AScheduleThatFollowsTheEvaluationGoesOn) {
  const std::string rows = (fs::path(HONE_FIXTURES) / "parity" / "sft" / "eval_text.jsonl").string();
  const std::vector<std::string> plateau = {
      "--eval_dataset", rows, "--eval_strategy", "steps", "--eval_steps", "1", "--logging_steps", "1",
      "--lr_scheduler_type", "reduce_lr_on_plateau", "--lr_scheduler_kwargs",
      // mode max: a loss that falls is no progress
      "{\"mode\": \"max\", \"patience\": 0, \"cooldown\": 1, \"factor\": 0.5}"};
  go("whole", plateau);
  std::vector<double> rates;
  for (const Json& one : history("whole")) {
    if (one.contains("learning_rate")) rates.push_back(one["learning_rate"].get<double>());
  }
  ASSERT_EQ(rates.size(), 6U);
  EXPECT_EQ(rates.front(), 1e-3);
  EXPECT_LT(rates.back(), 0.5e-3);
  stop_after(3, "run", plateau);
  std::vector<std::string> more = from("run", "true");
  more.insert(more.end(), plateau.begin(), plateau.end());
  go("run", more);
  expect_same_end("whole", "run");
}

// ---- damage

TEST_F(ResumeTest, ADamagedCheckpointFallsBackToTheNewestWholeOne) {
  go("run");
  go("whole");
  flip("run/checkpoint-6/optimizer.safetensors", 300);
  go("run", from("run", "true"));
  EXPECT_TRUE(noted("run/checkpoint-6 is damaged and was skipped: "));
  EXPECT_TRUE(noted("optimizer.safetensors has "));
  EXPECT_TRUE(noted("checkpoint-6 goes to abandoned-1-after-4"));
  expect_same_end("whole", "run");

  flip("run/checkpoint-6/adapter_model.safetensors", 300);
  flip("run/checkpoint-4/hone_state.json", 40);
  const std::string named = said([&] { go("run", from("run", "checkpoint-4")); });
  expect_has(named, "checkpoint-4/hone_state.json");
  expect_has(named, "do:     resume from " + (root_ / "run" / "checkpoint-2").string() +
                        ", the newest complete "
                        "one");
  EXPECT_EQ(steps("run"), (Steps{2, 4, 6})) << "a refused resume moves nothing";
  flip("run/checkpoint-2/trainer_state.json", 40);
  fs::remove_all(root_ / "run" / "abandoned-1-after-4");
  expect_has(said([&] { go("run", from("run", "true")); }),
             "no checkpoint in " + (root_ / "run").string() + " is complete");
}

// One bit anywhere: what the issue found in 14 of 180 damaged files.
TEST_F(ResumeTest, AnyBitOfACheckpointIsChecked) {
  stop_after(2, "run");
  const fs::path folder = fs::path("run") / "checkpoint-2";
  EXPECT_NO_THROW(check_checkpoint(root_ / folder));
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(root_ / folder))
    files.push_back(folder / entry.path().filename());
  EXPECT_GE(files.size(), 7U);
  for (const fs::path& name : files) {
    const std::size_t size = file(name).size();
    const bool own = name.filename() == kHoneStateFile;
    const std::size_t stride = own ? 1 + size / 150 : 1 + size / 8;
    for (std::size_t at = 0; at < size; at += stride) {
      const int bit = static_cast<int>(at % 8);
      flip(name, at, bit);
      EXPECT_THROW(check_checkpoint(root_ / folder), CheckpointDamage) << name << " byte " << at;
      flip(name, at, bit);
    }
    for (std::size_t at = own && size > 40 ? size - 40 : size; at < size; ++at) {  // its checksum
      for (int bit = 0; bit < 8; ++bit) {
        flip(name, at, bit);
        EXPECT_THROW(check_checkpoint(root_ / folder), CheckpointDamage) << name << " byte " << at;
        flip(name, at, bit);
      }
    }
    fs::rename(root_ / name, root_ / "gone");
    EXPECT_THROW(check_checkpoint(root_ / folder), CheckpointDamage) << name;
    fs::create_directories(root_ / name);  // a folder in its place
    EXPECT_THROW(check_checkpoint(root_ / folder), CheckpointDamage) << name;
    fs::remove(root_ / name);
    fs::rename(root_ / "gone", root_ / name);
  }
  EXPECT_NO_THROW(check_checkpoint(root_ / folder));
  fs::rename(root_ / folder, root_ / "run" / "checkpoint-4");
  EXPECT_THROW(check_checkpoint(root_ / "run" / "checkpoint-4/"), CheckpointDamage)
      << "step 2 under the name of 4";
  fs::rename(root_ / "run" / "checkpoint-4", root_ / "run" / "best");
  EXPECT_NO_THROW(check_checkpoint(root_ / "run" / "best"));
}

class ResumedStateTest : public ResumeTest {
 protected:
  // The state of a checkpoint of step 2, as sealed_state takes it.
  Json state() {
    Json json = base::parse_json(file(path_), "state");
    json.erase("format");
    json.erase("crc32c");
    return json;
  }
  void write(const std::string& text) { std::ofstream(root_ / path_, std::ios::binary) << text; }
  // Whether it is read; any other end than a UserError fails the test.
  bool is_read() {
    try {
      learn::Optimizer optimizer({}, learn::flat_layout({{"all", {parameters_}}}), at::kCPU);
      load_checkpoint(root_ / path_.parent_path(), optimizer, plan("run"));
      return true;
    } catch (const base::UserError&) {
      return false;
    }
  }
  fs::path path_ = fs::path("run") / "checkpoint-2" / kHoneStateFile;
  std::int64_t parameters_ = 0;
};

TEST_F(ResumedStateTest, EveryMalformedContentIsAUserError) {
  stop_after(2, "run");
  const Json good = state();
  parameters_ =
      base::SafetensorsFile::open(root_ / path_.parent_path() / kOptimizerFile).tensors()[0].shape[0];
  write(sealed_state(good));
  ASSERT_TRUE(is_read());
  int refused = 0;
  const auto places = good.flatten();
  for (const auto& [place, value] : places.items()) {
    if (place.starts_with("/options/") && !place.starts_with("/options/learning_rate")) continue;
    if (place.starts_with("/files/") && !place.starts_with("/files/trainer_state")) continue;
    for (const char* odd :
         {"null", "-1", "1e300", "0.5", "18446744073709551615", "\"../../x\"", "[]", "{\"\":{}}"}) {
      Json bad = good;
      bad[Json::json_pointer(place)] = base::parse_json(odd, "odd");
      write(sealed_state(bad));
      if (!is_read()) refused += 1;
    }
  }
  EXPECT_GT(refused, 40);
  for (const auto& [name, value] : good.items()) {
    for (const char* odd : {"null", "7", "[]", "{}", "\"x\"", "[[[]]]", "{\"a\":{\"bytes\":1}}"}) {
      Json bad = good;
      bad[name] = base::parse_json(odd, "odd");
      write(sealed_state(bad));
      EXPECT_TRUE(!is_read() || name == "options" || (name == "method_files" && bad[name] == Json::array()))
          << name << " " << odd;
    }
  }
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), std::string(100'000, '['),
        std::string("\xff\xfe"), std::string("{\"format\": 2}"), std::string("{\"format\": 3}"),
        std::string(R"({"format": "3"})"), std::string(",\n \"crc32c\": \n}\n")}) {
    write(text);
    EXPECT_FALSE(is_read()) << text.substr(0, 40);
  }
}

// Format 2: without a checksum; resumed with a note.
TEST_F(ResumedStateTest, ACheckpointOfAnOlderHoneIsResumed) {
  stop_after(2, "run");
  Json old = {{"format", 2}};
  old.update(state());
  old["run"].erase("evaluation_due");
  write(base::dump_json(old, 1) + "\n");
  const std::string text = file(path_);
  go("run", from("run", "true"));
  EXPECT_TRUE(noted("is from an older hone"));
  go("whole");
  expect_same_end("whole", "run");
  // Its step stands in three other places.
  old["run"]["step"] = 6;
  write(base::dump_json(old, 1) + "\n");
  EXPECT_THROW(check_checkpoint(root_ / path_.parent_path()), CheckpointDamage);
  for (std::size_t at = 0; at < text.size(); at += 7) {
    std::string bad = text;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    write(bad);
    EXPECT_NO_FATAL_FAILURE(
        said([&] { find_checkpoint(root_ / "run", (root_ / path_.parent_path()).string()); }));
  }
}

// ---- errors that end a run

TEST_F(ResumeTest, AnErrorOfAStepSavesTheLastOneFirst) {
  go("whole");
  const auto at_step_3 = [](Failing& method) { method.at_step = 3; };
  const std::string ended = ended_with("run", at_step_3);
  expect_has(ended, "[the reward] expected an answer");
  expect_has(ended, "do:     start it; step 3 was saved first, in " +
                        (root_ / "run" / "checkpoint-3").string() +
                        ": continue with --resume_from_checkpoint true");
  EXPECT_EQ(steps("run"), (Steps{2, 3}));
  // It fails again in the first step of the resumed run.
  expect_has(ended_with("run", at_step_3, from("run", "true")),
             (root_ / "run" / "checkpoint-3").string() + " contains the last step");
  EXPECT_EQ(watcher_->saves.size(), 0U);
  go("run", from("run", "true"));
  expect_same_end("whole", "run");
}

TEST_F(ResumeTest, AnErrorBeforeTheFirstStepIsToldAsItIs) {
  const std::string ended = ended_with("run", [](Failing& method) { method.at_step = 0; });
  expect_has(ended, "start it");
  EXPECT_EQ(ended.find("saved"), std::string::npos) << ended;
  EXPECT_TRUE(steps("run").empty());
}

TEST_F(ResumeTest, TheErrorIsToldAlsoWhenNothingCanBeSaved) {
  const std::string ended = ended_with("run", [&](Failing& method) {
    method.at_step = 3;
    method.fail = [&] {
      std::ofstream(root_ / "run" / "checkpoint-3") << "in the way";
      fail_as_a_reward();
    };
  });
  expect_has(ended, "[the reward] expected an answer");
  expect_has(ended, "start it; step 3 could not be saved: ");
  expect_has(ended, "checkpoint-3");
}

TEST_F(ResumeTest, AnErrorThatIsNotTheUsersSavesToo) {
  watcher_ = std::make_unique<Watcher>();
  const auto run = open_run(plan("run"), *watcher_);
  auto method = std::make_unique<Failing>(std::move(run->method));
  method->at_step = 3;
  method->fail = [] { throw std::bad_alloc(); };
  run->method = std::move(method);
  EXPECT_THROW(begin_run(*run, *watcher_, watcher_->stop), std::bad_alloc);
  EXPECT_EQ(steps("run"), (Steps{2, 3}));
}

TEST_F(ResumeTest, CtrlCWhileARewardIsWaitedForEndsAsAnInterruption) {
  const auto stopped = [&](const std::string& name, std::int64_t at, bool asked) {
    watcher_ = std::make_unique<Watcher>();
    const auto run = open_run(plan(name), *watcher_);
    auto method = std::make_unique<Failing>(std::move(run->method));
    method->at_step = at;
    method->fail = [&] {
      watcher_->stop = asked;
      throw rewards::RewardUnavailable({.where = "the reward", .found = "a wait that was ended"});
    };
    run->method = std::move(method);
    return begin_run(*run, *watcher_, watcher_->stop);
  };
  const LoopResult result = stopped("run", 3, true);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.step, 3);
  EXPECT_EQ(steps("run"), (Steps{2, 3}));
  go("run", from("run", "true"));
  go("whole");
  expect_same_end("whole", "run");
  EXPECT_THROW(stopped("at_once", 0, true), base::UserError) << "nothing was done that could go on";
  expect_has(said([&] { stopped("not_asked", 3, false); }), "step 3 was saved first");
}

TEST_F(ResumeTest, AnEvaluationThatFailedIsMadeByTheResumedRun) {
  const fs::path rows = fs::path(HONE_FIXTURES) / "parity" / "sft" / "text.jsonl";
  const std::vector<std::string> evaluates = {"--eval_dataset", rows.string(),  "--eval_strategy",
                                              "steps",          "--eval_steps", "2"};
  go("whole", evaluates);
  ASSERT_EQ(history("whole").size(), 5U);
  for (const std::int64_t at : {1, 2}) {  // of step 4, of the last step
    const std::string name = "run_" + std::to_string(at);
    const auto fails = [at](Failing& method) { method.at_evaluation = at; };
    expect_has(ended_with(name, fails, evaluates), "step " + std::to_string(2 * at + 2) + " was saved first");
    std::vector<std::string> resume = evaluates;
    resume.insert(resume.end(), {"--resume_from_checkpoint", "true"});
    expect_has(ended_with(
                   name, [](Failing& method) { method.at_evaluation = 0; }, resume),
               "contains the last step");
    go(name, resume);
    expect_same_end("whole", name);
    EXPECT_EQ(file(name + "/checkpoint-4/optimizer.safetensors"),
              file("whole/checkpoint-4/optimizer.safetensors"));
    const auto state = base::parse_json(file(name + "/checkpoint-4/hone_state.json"), name);
    EXPECT_EQ(state.at("run").at("evaluation_due"), false);
  }
}

}  // namespace resume_test
}  // namespace hone::train
