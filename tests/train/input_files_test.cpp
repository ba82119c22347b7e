// What a run read besides its rows: prints of files, what changed, and what an adapter's folder says of its run.
#include "train/opening/input_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "base/error.h"
#include "config/parse.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace input_files_test {

namespace fs = base::fs;
using base::Json;

class InputFiles : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(model());
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
      fs::copy_file(fs::path(HONE_FIXTURES) / "parity" / "tiny_llama" / name, model() / name);
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path model() const { return root_ / "model"; }
  fs::path out() const { return root_ / "out"; }

  config::Plan plan(config::Method method = config::Method::kSft, const std::vector<std::string>& more = {}) {
    const fs::path fixtures = fs::path(HONE_FIXTURES) / "parity";
    const bool samples = method == config::Method::kGrpo;
    std::vector<std::string> words = {
        "--model_name_or_path",
        model().string(),
        "--dataset_name",
        (samples ? fixtures / "trl_grpo" / "prompts.jsonl" : fixtures / "sft" / "text.jsonl").string(),
        "--use_peft",
        "--threads",
        "1",
        "--max_steps",
        "2",
        "--save_steps",
        "1",
        "--output_dir",
        out().string()};
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(method, words);
  }
  Json inputs(const config::Plan& of) { return input_files(of, open_text(of)); }

  void change(const fs::path& file, std::size_t at) {
    std::string text = base::read_text(file);
    text[at] = static_cast<char>(text[at] ^ 1);
    base::write_file_atomic(file, text);
  }

  void train() {
    RunListener silent;
    const std::atomic<bool> stop = false;
    begin_run(*open_run(plan(), silent), silent, stop, nullptr);
  }

  const fs::path root_ = fs::temp_directory_path() / ("hone_inputs_" + std::to_string(getpid()));
};

TEST_F(InputFiles, NamesKindsAndSaysWhatChanged) {
  base::write_file_atomic(model() / "special_tokens_map.json", "{}");
  const Json before = inputs(plan());
  EXPECT_EQ(before["method"], "sft");
  EXPECT_EQ(before["files"]["the base model"].size(), 2);
  EXPECT_EQ(before["files"]["the tokenizer"].size(), 3);
  EXPECT_TRUE(before["files"].contains("the chat template"));
  EXPECT_TRUE(changed_inputs(before, inputs(plan())).empty());

  change(model() / "model.safetensors", 100'000);
  fs::remove(model() / "special_tokens_map.json");
  EXPECT_EQ(changed_inputs(before, inputs(plan())),
            (std::vector<std::string>{"the base model changed: model.safetensors has other contents",
                                      "the tokenizer changed: special_tokens_map.json is gone"}));
}

TEST_F(InputFiles, AFileOfARewardIsOneAndABuiltInRewardIsNone) {
  base::write_file_atomic(root_ / "mine.py", "def f(completions, **_): return [0.0] * len(completions)\n");
  const auto of = [&] {
    return inputs(plan(config::Method::kGrpo,
                       {"--reward_funcs", (root_ / "mine.py").string() + ":f", "length(target=6)",
                        "--num_generations", "2", "--per_device_train_batch_size", "2"}));
  };
  const Json before = of();
  ASSERT_EQ(before["files"]["the reward"].size(), 1);
  EXPECT_TRUE(before["files"]["the reward"].contains("mine.py"));
  change(root_ / "mine.py", 0);
  EXPECT_EQ(changed_inputs(before, of()),
            (std::vector<std::string>{"the reward changed: mine.py has other contents"}));
}

// Training changes all of a large file, so that pieces of it are read; its length is part of the print.
TEST_F(InputFiles, OfALargeFilePiecesAndTheEnds) {
  constexpr std::size_t kSize = 8 << 20;  // more than 66 pieces of 64 KiB
  const fs::path large = model() / "large.safetensors";
  base::write_file_atomic(large, std::string(kSize, 'a'));
  const Json before = inputs(plan());
  for (const std::size_t at : {std::size_t{0}, kSize - 1}) {
    change(large, at);
    EXPECT_EQ(changed_inputs(before, inputs(plan())).size(), 1) << at;
    change(large, at);
    EXPECT_TRUE(changed_inputs(before, inputs(plan())).empty()) << at;
  }
  base::write_file_atomic(large, std::string(kSize + 1, 'a'));
  EXPECT_EQ(changed_inputs(before, inputs(plan())).size(), 1) << "longer by one";
}

TEST_F(InputFiles, AnAdapterKnowsItsBaseAtTheTopAndInACheckpoint) {
  train();
  for (const fs::path& adapter : {out(), out() / "checkpoint-1"}) {
    EXPECT_EQ(adapter_inputs(adapter), inputs(plan())) << adapter;
    EXPECT_TRUE(compare_base(adapter, model()).known);
    EXPECT_TRUE(compare_base(adapter, model()).changed.empty());
  }
  EXPECT_TRUE(fs::exists(out() / kInputsFile));
  EXPECT_FALSE(fs::exists(out() / "checkpoint-1" / kInputsFile)) << "hone_state.json has it";

  fs::copy_file(model() / "model.safetensors", model() / "more.safetensors");
  EXPECT_TRUE(compare_base(out(), model()).changed.empty()) << "a file that the run did not have";
  change(model() / "model.safetensors", 100'000);
  EXPECT_EQ(compare_base(out(), model()).changed, std::vector<std::string>{"model.safetensors"});
  fs::rename(model() / "model.safetensors", model() / "renamed.safetensors");
  EXPECT_FALSE(compare_base(out(), model()).known) << "another format of a model";
  EXPECT_TRUE(compare_base(out(), model()).changed.empty());
}

TEST_F(InputFiles, AFolderThatDoesNotSayIsEmpty) {
  EXPECT_EQ(adapter_inputs(root_ / "nothing"), Json::object());
  EXPECT_FALSE(compare_base(root_ / "nothing", model()).known);
  for (const char* text : {"[1]", "7", "{\"files\": 3}", "{\"files\": {\"the base model\": [1]}}", "{"}) {
    base::write_file_atomic(root_ / kInputsFile, text);
    EXPECT_FALSE(compare_base(root_, model()).known) << text;
  }
}

TEST_F(InputFiles, ACheckpointOfAnotherMethodIsNamed) {
  train();
  EXPECT_NO_THROW(require_same_method(out() / "checkpoint-1", plan()));
  config::Plan other = plan();
  other.method = config::Method::kDpo;
  try {
    require_same_method(out() / "checkpoint-1", other);
    FAIL() << "a checkpoint of sft resumed as dpo";
  } catch (const base::UserError& error) {
    EXPECT_NE(error.text().found.find("is of a run of sft"), std::string::npos) << error.what();
    EXPECT_NE(error.text().fix.find("hone sft"), std::string::npos) << error.what();
  }
}

}  // namespace input_files_test
}  // namespace hone::train
