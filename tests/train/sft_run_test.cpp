// Whole runs on the tiny Llama: interruption and resume, one writer a folder, continued adapters,
// accumulation.
#include "train/opening/open_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "config/parse.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace sft_run_test {

namespace fs = base::fs;

struct Killed {};

// Acts after given steps, and keeps what was said.
class Watcher final : public RunListener {
 public:
  void on_start(const StartFacts& facts) override {
    notes = facts.notes;
    if (when_started) when_started();
  }
  void on_step(const StepFacts& facts, std::int64_t) override {
    steps.push_back(facts);
    if (facts.step == stop_after) stop = true;
    if (facts.step == kill_after) throw Killed();  // nothing after this step is saved, as with kill -9
  }
  void on_log(const LogRecord&) override { logged_records += 1; }
  std::function<void()> when_started;
  int logged_records = 0;
  std::vector<std::string> notes;
  std::vector<StepFacts> steps;
  std::int64_t stop_after = 0, kill_after = 0;
  std::atomic<bool> stop = false;
};

class SftRunTest : public testing::Test {
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
                                      "--lora_dropout",
                                      "0.1",
                                      "--output_dir",
                                      (root_ / name).string()};
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(config::Method::kSft, words);
  }

  static LoopResult go(const config::Plan& run, Watcher& watcher) {
    return begin_run(*open_run(run, watcher), watcher, watcher.stop);
  }
  LoopResult go(const std::string& name, const std::vector<std::string>& more = {}) {
    Watcher watcher;
    return go(plan(name, more), watcher);
  }

  std::string file(const std::string& run, std::string_view name) {
    return base::read_text(root_ / run / std::string(name));
  }
  // The run's log, but for the line of its end, which holds times.
  base::Json history(const std::string& run) {
    base::Json log = base::parse_json(file(run, kTrainerStateFile), run).at("log_history");
    log.erase(log.size() - 1);
    return log;
  }
  void expect_same_end(const std::string& one, const std::string& other) {
    EXPECT_EQ(file(one, kAdapterWeightsFile), file(other, kAdapterWeightsFile));
    EXPECT_EQ(file(one + "/checkpoint-6", kOptimizerFile), file(other + "/checkpoint-6", kOptimizerFile));
    EXPECT_EQ(history(one), history(other));
  }

  fs::path root_ = fs::temp_directory_path() / ("hone_sft_run_" + std::to_string(getpid()));
};

TEST_F(SftRunTest, StoppedAndResumedIsBitEqual) {
  go("whole");
  Watcher watcher;
  watcher.stop_after = 3;
  const LoopResult stopped = go(plan("parts"), watcher);
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(stopped.step, 3);
  EXPECT_EQ(checkpoint_steps(root_ / "parts"), (std::vector<std::int64_t>{2, 3}));
  const LoopResult resumed = go("parts", {"--resume_from_checkpoint", "true"});
  EXPECT_FALSE(resumed.interrupted);
  expect_same_end("whole", "parts");
}

TEST_F(SftRunTest, KilledAndResumedIsBitEqual) {
  go("whole");
  Watcher watcher;
  watcher.kill_after = 5;
  EXPECT_THROW(go(plan("parts"), watcher), Killed);
  fs::create_directories(root_ / "parts" / "checkpoint-6.partial");  // and a save that was cut short
  fs::create_directories(root_ / "parts" / ".final.partial");
  go("parts", {"--resume_from_checkpoint", "true"});
  expect_same_end("whole", "parts");
  for (const auto& entry : fs::directory_iterator(root_ / "parts")) {
    EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
    EXPECT_FALSE(entry.path().filename().string().starts_with(".hone-")) << entry.path();
  }
}

TEST_F(SftRunTest, WithTrainedTokensStoppedAndResumedIsBitEqual) {
  for (const char* init : {"true", "pissa_niter_4"}) {
    const std::string whole = std::string("whole_") + init, parts = std::string("parts_") + init;
    const std::vector<std::string> tokens = {
        "--trainable_token_indices", "224", "3", "25", "--weight_decay", "0.1", "--init_lora_weights", init};
    go(whole, tokens);
    Watcher watcher;
    watcher.stop_after = 3;
    go(plan(parts, tokens), watcher);
    std::vector<std::string> resume = tokens;
    resume.insert(resume.end(), {"--resume_from_checkpoint", "true"});
    go(parts, resume);
    expect_same_end(whole, parts);
    EXPECT_NE(file(whole, kAdapterWeightsFile).find("token_adapter.trainable_tokens_delta"),
              std::string::npos);
  }
}

const std::vector<std::string> kWholeModules = {
    "--lora_target_modules", "q_proj", "lm_head",        "--lora_modules_to_save",
    "embed_tokens",          "norm",   "--rank_pattern", "{\"lm_head\": 3}",
    "--weight_decay",        "0.1"};

TEST_F(SftRunTest, WithWholeModulesStoppedAndResumedIsBitEqual) {
  go("whole", kWholeModules);
  Watcher watcher;
  watcher.stop_after = 3;
  go(plan("parts", kWholeModules), watcher);
  std::vector<std::string> resume = kWholeModules;
  resume.insert(resume.end(), {"--resume_from_checkpoint", "true"});
  go("parts", resume);
  expect_same_end("whole", "parts");
  const std::string weights = file("whole", kAdapterWeightsFile);
  for (const char* key : {"base_model.model.model.embed_tokens.weight",
                          "base_model.model.lm_head.lora_A.weight", "base_model.model.model.norm.weight"})
    EXPECT_NE(weights.find(key), std::string::npos) << key;
  go("continued", {"--adapter_name_or_path", (root_ / "whole").string()});
  EXPECT_NE(file("continued", kAdapterWeightsFile), weights);
  EXPECT_EQ(file("continued", kAdapterConfigFile), file("whole", kAdapterConfigFile));
}

TEST_F(SftRunTest, WholeModulesTakeTheFormThatTrainsThem) {
  Watcher watcher;
  const auto run = open_run(plan("auto", kWholeModules), watcher);
  const MemoryPlan& memory = run->start.memory;
  EXPECT_FALSE(memory.fused_layer);
  EXPECT_NE(memory.why_layer.find("the embedding or the head has a LoRA"), std::string::npos);
  EXPECT_FALSE(run->model->packed());
  const TrainedFacts& trained = run->start.trained;
  EXPECT_EQ(trained.modules, (std::vector<std::string>{"q_proj", "lm_head"}));
  EXPECT_EQ(trained.modules_matched, 3);
  EXPECT_EQ(trained.whole, (std::vector<std::string>{"embed_tokens", "5 norms"}));
  EXPECT_TRUE(trained.unties_head);
  // parameters, gradients and two moments of every parameter; casts and gradients of embedding and head
  const auto segment = [&](std::string_view name) {
    for (const MemorySegment& one : memory.segments) {
      if (one.name == name) return one.bytes;
    }
    return std::int64_t{0};
  };
  EXPECT_EQ(segment("adapter and optimizer"), run->adapter->flat().numel() * 4 * 4);
  EXPECT_GE(segment("embedding and head, trained"), 384 * 64 * 4);
  std::vector<std::string> fused = kWholeModules;
  fused.insert(fused.end(), {"--layer_form", "explicit"});
  EXPECT_THROW(open_run(plan("fused", fused), watcher), base::UserError);
}

TEST_F(SftRunTest, KilledWhileTheResultIsPutInPlaceGoesOn) {
  go("whole");
  const std::string weights = file("whole", kAdapterWeightsFile);
  for (const char* name : {".hone-result", ".final"}) {  // today's, and that of earlier versions of hone
    const fs::path set = root_ / "whole" / name;
    fs::create_directories(set);  // some files moved, some not
    if (name == std::string(".hone-result")) std::ofstream(set / "made-by-hone") << "";
    fs::rename(root_ / "whole" / kAdapterWeightsFile, set / kAdapterWeightsFile);
    fs::rename(root_ / "whole" / kAdapterConfigFile, set / kAdapterConfigFile);
    go("whole", {"--resume_from_checkpoint", "true"});
    EXPECT_EQ(file("whole", kAdapterWeightsFile), weights);
    EXPECT_TRUE(fs::exists(root_ / "whole" / kAdapterConfigFile));
    EXPECT_FALSE(fs::exists(set));
  }
}

TEST_F(SftRunTest, ASecondRunInTheSameFolderIsStopped) {
  Watcher watcher;
  std::string said;
  watcher.when_started = [&] {
    try {
      go("one", {"--seed", "7"});
    } catch (const base::UserError& error) {
      said = error.what();
    }
  };
  go(plan("one"), watcher);
  EXPECT_NE(said.find("another run of hone, which is still running"), std::string::npos) << said;
  EXPECT_NE(file("one", kPlanFile).find("seed: 42"), std::string::npos) << "the first run's plan stays";
}

TEST_F(SftRunTest, AContinuedAdapterKeepsItsDropoutAndBaseUnlessTold) {
  go("first");
  const std::string adapter = (root_ / "first").string();
  config::Plan kept = plan("kept", {"--adapter_name_or_path", adapter});
  kept.continued_dropout.reset();  // as if lora_dropout had not been set
  kept.lora_dropout = 0.05;
  Watcher watcher;
  go(kept, watcher);
  const auto config = [&](const std::string& run) {
    return base::parse_json(file(run, kAdapterConfigFile), run);
  };
  EXPECT_EQ(config("kept").at("lora_dropout"), 0.1);
  EXPECT_EQ(config("kept").at("base_model_name_or_path"), config("first").at("base_model_name_or_path"));
  go("told", {"--adapter_name_or_path", adapter, "--lora_dropout", "0", "--base_model_name_for_adapter",
              "owner/base"});
  EXPECT_EQ(config("told").at("lora_dropout"), 0.0);
  EXPECT_EQ(config("told").at("base_model_name_or_path"), "owner/base");
  EXPECT_NE(file("told", kAdapterWeightsFile), file("kept", kAdapterWeightsFile))
      << "dropout changes what is learned";
}

TEST_F(SftRunTest, WhatAResumeCannotChangeIsSaid) {
  Watcher stopped;
  stopped.stop_after = 2;
  go(plan("run"), stopped);
  Watcher resumed;
  go(plan("run", {"--resume_from_checkpoint", "true", "--lora_r", "4", "--learning_rate", "2e-3"}), resumed);
  const auto said = [&](const std::string& text) {
    return std::find(resumed.notes.begin(), resumed.notes.end(), text) != resumed.notes.end();
  };
  EXPECT_TRUE(
      said("differs from the checkpoint: lora_r: 16 -> 4, not used: the checkpoint's adapter is continued"));
  EXPECT_TRUE(said("differs from the checkpoint: learning_rate: 0.001 -> 0.002"));
}

TEST_F(SftRunTest, ChangedTrainingRowsAreNotedOnResume) {
  fs::create_directories(root_);
  const fs::path rows = root_ / "rows.jsonl";
  const std::string line = "{\"text\": \"one two three\"}\n";
  const auto resumed_notes = [&](const std::string& text) {
    base::write_file_atomic(rows, text);
    Watcher watcher;
    watcher.stop_after = 4;
    go(plan("run", {"--dataset_name", rows.string(), "--resume_from_checkpoint",
                    (root_ / "run" / "checkpoint-2").string()}),
       watcher);
    std::erase_if(watcher.notes, [](const std::string& one) { return one.starts_with("this run leaves"); });
    return watcher.notes;
  };
  base::write_file_atomic(rows, line + line);
  Watcher stopped;
  stopped.stop_after = 2;
  go(plan("run", {"--dataset_name", rows.string()}), stopped);
  EXPECT_EQ(resumed_notes(line + line), std::vector<std::string>{});
  const std::string before = "differs from the checkpoint: the training rows changed (";
  const std::string after = "): the resumed run is not equal to an uninterrupted one";
  EXPECT_EQ(resumed_notes(line + line + line), std::vector<std::string>{before + "2 rows -> 3 rows" + after});
  EXPECT_EQ(resumed_notes(line + "{\"text\": \"one two four\"}\n"),
            std::vector<std::string>{before + "2 rows with another checksum" + after});
}

TEST_F(SftRunTest, AResumeAtTheLastStepKeepsTheOneRecordOfTheEnd) {
  go("run");
  const auto log_of = [&] {
    return base::parse_json(file("run", kTrainerStateFile), "run").at("log_history");
  };
  const base::Json before = log_of();
  ASSERT_TRUE(before.back().contains("train_runtime"));
  Watcher watcher;
  go(plan("run", {"--resume_from_checkpoint", "true"}), watcher);
  EXPECT_EQ(watcher.steps.size(), 0U);
  EXPECT_EQ(watcher.logged_records, 0);
  EXPECT_EQ(log_of(), before);
}

TEST_F(SftRunTest, RowsBeyondTheModelsPositionsAreSaid) {
  const fs::path model = root_ / "short_model";
  fs::create_directories(root_);
  fs::copy(fs::path(HONE_FIXTURES) / "parity" / "tiny_llama", model);
  base::Json config = base::parse_json(base::read_text(model / "config.json"), "config.json");
  config["max_position_embeddings"] = 8;
  base::write_file_atomic(model / "config.json", base::dump_json(config));
  Watcher watcher;
  go(plan("run", {"--model_name_or_path", model.string(), "--max_steps", "1", "--max_length", "16"}),
     watcher);
  ASSERT_EQ(watcher.notes.size(), 1U);
  EXPECT_NE(watcher.notes[0].find("the longest row has 16 tokens, the model's max_position_embeddings is 8"),
            std::string::npos)
      << watcher.notes[0];
}

TEST_F(SftRunTest, AResumeIntoAnotherFolderOverwritesNothing) {
  go("first");
  go("second", {"--max_steps", "2"});
  const std::string from = (root_ / "first" / "checkpoint-2").string();
  const std::string before = file("second", kAdapterWeightsFile);
  try {
    go("second", {"--resume_from_checkpoint", from});
    FAIL() << "a finished run was overwritten";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("an earlier run wrote here"), std::string::npos) << error.what();
  }
  EXPECT_EQ(file("second", kAdapterWeightsFile), before);
  go("third", {"--resume_from_checkpoint", from + "/"});
  EXPECT_EQ(file("third", kAdapterWeightsFile), file("first", kAdapterWeightsFile));
  go("first", {"--resume_from_checkpoint", from + "/"});
  EXPECT_EQ(file("third", kAdapterWeightsFile), file("first", kAdapterWeightsFile));
}

TEST_F(SftRunTest, ACheckpointOfAnotherFormatIsRefused) {
  go("run", {"--max_steps", "2"});
  const fs::path state = root_ / "run" / "checkpoint-2" / kHoneStateFile;
  base::Json json = base::parse_json(base::read_text(state), "state");
  json["format"] = 1;
  base::write_file_atomic(state, base::dump_json(json));
  try {
    go("run", {"--resume_from_checkpoint", "true"});
    FAIL() << "read as if it were of this format";
  } catch (const base::UserError& error) {
    EXPECT_NE(std::string(error.what()).find("found:  format 1"), std::string::npos) << error.what();
  }
}

// Dropout's masks are keyed by row and position, so that they are the same too.
TEST_F(SftRunTest, FourByOneIsOneByFour) {
  Watcher four, one;
  go(plan("four", {"--per_device_train_batch_size", "4"}), four);
  go(plan("one", {"--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "4"}), one);
  ASSERT_EQ(four.steps.size(), one.steps.size());
  for (std::size_t i = 0; i < four.steps.size(); ++i) {
    EXPECT_NEAR(four.steps[i].loss / one.steps[i].loss, 1, 1e-5) << "step " << i + 1;
    EXPECT_NEAR(four.steps[i].grad_norm / one.steps[i].grad_norm, 1, 1e-4) << "step " << i + 1;
  }
}

}  // namespace sft_run_test
}  // namespace hone::train
