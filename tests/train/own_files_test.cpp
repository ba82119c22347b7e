// What in output_dir is hone's own (train/saves/own_files.h), and what a run does beside things that are not:
// nothing.
#include "train/saves/own_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <map>

#include "base/error.h"
#include "config/parse.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"
#include "train/saves/run_inputs.h"

namespace hone::train {
namespace own_files_test {

namespace fs = base::fs;
using base::Json;

class OwnFilesTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  fs::path out() const { return root_ / "out"; }
  static fs::path tiny() { return fs::path(HONE_FIXTURES) / "parity" / "tiny_llama"; }

  // The tiny model without its goldens and adapters.
  fs::path copied_model(const std::string& name) const {
    fs::create_directories(root_ / name);
    for (const char* file : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(tiny() / file, root_ / name / file);
    return root_ / name;
  }

  config::Plan plan(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"--model_name_or_path",
                                      tiny().string(),
                                      "--dataset_name",
                                      (fs::path(HONE_FIXTURES) / "parity/sft/text.jsonl").string(),
                                      "--threads",
                                      "1",
                                      "--max_steps",
                                      "2",
                                      "--save_steps",
                                      "1",
                                      "--use_peft",
                                      "true",
                                      "--output_dir",
                                      out().string()};
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(config::Method::kSft, words);
  }

  static std::vector<std::string> train(const config::Plan& plan) {
    RunListener silent;
    const std::atomic<bool> stop = false;
    const auto run = open_run(plan, silent);
    std::vector<std::string> notes = run->start.notes;
    begin_run(*run, silent, stop, nullptr);
    return notes;
  }

  // "" where the run goes.
  static std::string refusal(const config::Plan& plan) {
    try {
      train(plan);
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "";
  }

  std::map<std::string, std::string> all_files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      if (entry.is_regular_file()) files[entry.path().string()] = base::read_text(entry.path());
    }
    return files;
  }

  void refused_untouched(const config::Plan& plan, const std::string& text) const {
    const auto before = all_files();
    const std::string said = refusal(plan);
    EXPECT_NE(said.find(text), std::string::npos) << said;
    EXPECT_TRUE(all_files() == before) << "something was written";
  }

  const fs::path root_ = fs::temp_directory_path() / ("hone_own_files_" + std::to_string(getpid()));
};

TEST_F(OwnFilesTest, ARunIntoItsModelsFolderIsRefused) {
  const std::string model = copied_model("model").string();
  for (const char* peft : {"true", "false"}) {
    for (const char* overwrite : {"true", "false"}) {
      refused_untouched(plan({"--model_name_or_path", model, "--output_dir", model, "--use_peft", peft,
                              "--overwrite_output_dir", overwrite}),
                        "is the same folder");
    }
  }
  fs::create_directory_symlink(model, root_ / "link");
  refused_untouched(plan({"--model_name_or_path", model, "--output_dir", (root_ / "link").string()}),
                    "is the same folder");
  refused_untouched(plan({"--tokenizer_name_or_path", model, "--output_dir", model}),
                    "tokenizer_name_or_path");
}

TEST_F(OwnFilesTest, OverwritingKeepsWhatIsNotHones) {
  fs::create_directories(out() / "checkpoint-1");
  base::write_file_atomic(out() / "thesis.txt", "years");
  base::write_file_atomic(out() / "checkpoint-1/x", "mine");
  refused_untouched(plan({"--overwrite_output_dir", "true"}), "checkpoint-1/x");
  fs::remove_all(out() / "checkpoint-1");
  EXPECT_EQ(refusal(plan({"--overwrite_output_dir", "true"})), "");
  EXPECT_EQ(base::read_text(out() / "thesis.txt"), "years");
  // afterwards the checkpoints are hone's, but for a file that is put into one
  base::write_file_atomic(out() / "checkpoint-2/notes.md", "mine");
  refused_untouched(plan({"--overwrite_output_dir", "true"}), "checkpoint-2/notes.md");
}

TEST_F(OwnFilesTest, AnotherModelIsNoPlaceForARun) {
  const std::string model = copied_model("model").string();
  for (const char* overwrite : {"true", "false"}) {
    refused_untouched(plan({"--output_dir", model, "--overwrite_output_dir", overwrite}), "tokenizer.json");
    refused_untouched(
        plan({"--output_dir", model, "--overwrite_output_dir", overwrite, "--use_peft", "false"}),
        "config.json");
  }
  fs::create_directories(out());
  base::write_file_atomic(out() / kMetricsFile, "mine\n");
  refused_untouched(plan(), "metrics.jsonl");
  fs::remove(out() / kMetricsFile);
  base::write_file_atomic(out() / kPlanFile, "my: plan\n");
  refused_untouched(plan(), "plan.yaml");
}

TEST_F(OwnFilesTest, OverwritingMovesTheEarlierRunAside) {
  train(plan());
  base::write_file_atomic(out() / kMetricsFile, "{\"step\": 2}\n");  // as a run with a listener writes it
  const std::string weights = base::read_text(out() / kAdapterWeightsFile);
  const std::string last = base::read_text(out() / "checkpoint-2" / kAdapterWeightsFile);
  const auto notes = train(plan({"--overwrite_output_dir", "true", "--max_steps", "1", "--seed", "7"}));
  bool told = false;
  for (const std::string& note : notes) told |= note.find("abandoned-1-after-0") != std::string::npos;
  EXPECT_TRUE(told);
  EXPECT_EQ(checkpoint_steps(out()), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(base::read_text(out() / "abandoned-1-after-0/checkpoint-2" / kAdapterWeightsFile), last);
  EXPECT_EQ(base::read_text(out() / "abandoned-1-after-0" / kMetricsFile), "{\"step\": 2}\n");
  EXPECT_NE(base::read_text(out() / kAdapterWeightsFile), weights) << "the new run's result";
  EXPECT_FALSE(fs::exists(out() / kMetricsFile)) << "the new run begins its own";
}

// Names prove little: what a user put under a record's name is moved, and what no run writes stays.
TEST_F(OwnFilesTest, OverwritingDeletesNoRecord) {
  train(plan({"--save_strategy", "no"}));
  base::write_file_atomic(out() / kMetricsFile, "{\"step\": 2}\n");
  base::write_file_atomic(out() / kSamplesFile, "mine\n");
  fs::create_directories(out() / kCompletionsFolder);
  base::write_file_atomic(out() / kCompletionsFolder / "labels.csv", "mine\n");
  base::write_file_atomic(out() / kCompletionsFolder / completions_name(1), "{}\n");
  train(plan({"--overwrite_output_dir", "true", "--save_strategy", "no"}));
  const fs::path aside = out() / "abandoned-1-after-0";
  EXPECT_EQ(base::read_text(aside / kMetricsFile), "{\"step\": 2}\n");
  EXPECT_EQ(base::read_text(aside / kSamplesFile), "mine\n");
  EXPECT_TRUE(fs::exists(aside / kCompletionsFolder / completions_name(1)));
  EXPECT_TRUE(fs::exists(aside / kTrainerStateFile));
  EXPECT_EQ(base::read_text(out() / kCompletionsFolder / "labels.csv"), "mine\n");
  EXPECT_FALSE(fs::exists(out() / kCompletionsFolder / completions_name(1)));
  EXPECT_FALSE(fs::exists(out() / kSamplesFile));
}

TEST_F(OwnFilesTest, TheStateIsARecord) {
  train(plan());
  base::write_file_atomic(out() / kTrainerStateFile, "{}\n");  // as hone.trl's save_state
  EXPECT_EQ(refusal(plan({"--resume_from_checkpoint", "true", "--max_steps", "3"})), "");
  base::write_file_atomic(out() / kTrainerStateFile, "{}\n");
  EXPECT_EQ(refusal(plan({"--overwrite_output_dir", "true"})), "");
}

TEST_F(OwnFilesTest, ATokenizerBelowTheOutputIsOnlyRead) {
  const std::string tokenizer = copied_model("out/tokenizer").string();
  EXPECT_EQ(refusal(plan({"--tokenizer_name_or_path", tokenizer})), "");
  EXPECT_EQ(refusal(plan({"--tokenizer_name_or_path", tokenizer, "--overwrite_output_dir", "true"})), "");
}

// A kill after the beginning leaves the earlier result; here the run fails at its first step.
TEST_F(OwnFilesTest, TheEarlierResultStaysUntilTheNewOneIsThere) {
  train(plan());
  const std::string weights = base::read_text(out() / kAdapterWeightsFile);
  RunListener silent;
  const std::atomic<bool> stop = true;  // interrupted after its first step: no result
  const auto run = open_run(plan({"--overwrite_output_dir", "true", "--max_steps", "5"}), silent);
  begin_run(*run, silent, stop, nullptr);
  EXPECT_EQ(base::read_text(out() / kAdapterWeightsFile), weights);
  EXPECT_TRUE(fs::exists(out() / kAdapterConfigFile));
}

TEST_F(OwnFilesTest, AnotherKindOfResultTakesThePlaceOfTheOld) {
  train(plan());
  train(plan({"--overwrite_output_dir", "true", "--use_peft", "false", "--max_steps", "1"}));
  EXPECT_TRUE(has_model_weights(out()));
  EXPECT_FALSE(fs::exists(out() / kAdapterConfigFile)) << "the earlier run's, as it wrote it";
  EXPECT_FALSE(fs::exists(out() / kAdapterWeightsFile));
  train(plan({"--overwrite_output_dir", "true", "--max_steps", "1"}));
  EXPECT_FALSE(has_model_weights(out()));
}

TEST_F(OwnFilesTest, AChangedResultIsNotHonesAnymore) {
  train(plan());
  std::string config = base::read_text(out() / "tokenizer_config.json");
  base::write_file_atomic(out() / "tokenizer_config.json", config + "\n");
  refused_untouched(plan({"--overwrite_output_dir", "true"}), "tokenizer_config.json");
  refused_untouched(plan({"--resume_from_checkpoint", "true", "--max_steps", "3"}), "tokenizer_config.json");
}

TEST_F(OwnFilesTest, FoldersOfAnOlderHoneGoOn) {
  train(plan());
  fs::remove(out() / kOwnFile);
  EXPECT_EQ(refusal(plan({"--resume_from_checkpoint", "true", "--max_steps", "3"})), "");
  fs::remove(out() / kOwnFile);
  EXPECT_EQ(refusal(plan({"--overwrite_output_dir", "true"})), "");
}

TEST_F(OwnFilesTest, ACheckpointIsNoOutputFolder) {
  train(plan());
  refused_untouched(
      plan({"--output_dir", (out() / "checkpoint-1").string(), "--overwrite_output_dir", "true"}),
      "hone_state.json");
  refused_untouched(
      plan({"--adapter_name_or_path", (out() / "checkpoint-1").string(), "--overwrite_output_dir", "true"}),
      "adapter_name_or_path");
  refused_untouched(plan({"--adapter_name_or_path", out().string(), "--overwrite_output_dir", "true"}),
                    "is the same folder");
}

TEST_F(OwnFilesTest, RotationKeepsACheckpointWithAFileOfTheUsers) {
  train(plan());
  base::write_file_atomic(out() / "checkpoint-1/notes.md", "mine");
  train(plan({"--resume_from_checkpoint", "true", "--max_steps", "4", "--save_total_limit", "1"}));
  EXPECT_EQ(checkpoint_steps(out()), (std::vector<std::int64_t>{1, 4}));
  EXPECT_EQ(base::read_text(out() / "checkpoint-1/notes.md"), "mine");
}

TEST_F(OwnFilesTest, EveryInputIsNamed) {
  const std::string model = copied_model("model").string();
  base::write_file_atomic(root_ / "reward.py", "def f(): pass\n");
  base::write_file_atomic(root_ / "template.jinja", "{{ messages }}");
  config::Plan all = plan({"--tokenizer_name_or_path", model});
  all.chat_template_path = (root_ / "template.jinja").string();
  all.policy.reward_funcs = {(root_ / "reward.py").string() + ":f", "accuracy_reward"};
  all.eval_reward_funcs = {model};
  all.online.judge = (root_ / "reward.py").string() + ":f";
  all.policy.replay = (root_ / "template.jinja").string();
  all.sample_file = (root_ / "template.jinja").string();
  all.base_adapters = {model};
  std::vector<std::string> options;
  for (const base::ReadPlace& one : run_inputs(all)) options.push_back(one.option);
  for (const char* name :
       {"model_name_or_path", "tokenizer_name_or_path", "base_adapters", "chat_template_path", "dataset_name",
        "reward_funcs", "eval_reward_funcs", "judge", "replay", "sample_prompts"})
    EXPECT_EQ(std::count(options.begin(), options.end(), name) > 0, true) << name;
}

}  // namespace own_files_test
}  // namespace hone::train
