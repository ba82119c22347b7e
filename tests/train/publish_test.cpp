// The finished result at the top of output_dir: old or new in every moment of its publishing, and finished by
// whoever comes next.
#include "train/saves/publish.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_trace.h"
#include "config/parse.h"
#include "train/opening/open_run.h"
#include "train/saves/run_folder.h"

namespace hone::train {
namespace publish_test {

namespace fs = base::fs;
using trace::Tree;

class PublishTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_ / "out"); }
  void TearDown() override { fs::remove_all(root_); }

  config::Plan plan(const std::string& output_dir, const std::vector<std::string>& more = {}) {
    const fs::path fixtures = fs::path(HONE_FIXTURES) / "parity";
    std::vector<std::string> words = {"--model_name_or_path",
                                      (fixtures / "tiny_llama").string(),
                                      "--dataset_name",
                                      (fixtures / "sft" / "text.jsonl").string(),
                                      "--use_peft",
                                      "--bf16",
                                      "false",
                                      "--threads",
                                      "1",
                                      "--output_dir",
                                      (root_ / output_dir).string()};
    words.insert(words.end(), more.begin(), more.end());
    return config::parse_run(config::Method::kSft, words);
  }
  // The result in `folder` as a killed run left it: config and one more file not yet at the top.
  void leave_half(const fs::path& folder) {
    fs::create_directories(folder / ".hone-result");
    std::ofstream(folder / ".hone-result" / "made-by-hone") << "";
    for (const auto name : {kAdapterConfigFile, kPlanFile})
      fs::rename(folder / name, folder / ".hone-result" / name);
  }

  const fs::path root_ = trace::scratch("hone_publish");
};

TEST_F(PublishTest, IsOldOrNewAfterEachCall) {
  RunListener silent;
  const auto run = open_run(plan("elsewhere"), silent);
  RunState state = run->resume_state->state;
  const TrainerStateFacts facts{.max_steps = 6};
  const auto publish = [&](std::int64_t step) {
    state.step = step;
    run->adapter->flat().fill_(static_cast<double>(step));
    publish_final(root_ / "out", {.adapter = *run->adapter,
                                  .optimizer = run->resume_state->optimizer,
                                  .state = state,
                                  .facts = facts,
                                  .plan = run->plan,
                                  .tokenizer = run->text->tokenizer});
  };
  publish(3);
  const Tree old = trace::tree_of(root_ / "out");
  publish(4);
  const Tree made = trace::tree_of(root_ / "out");
  publish(3);
  ASSERT_EQ(trace::tree_of(root_ / "out"), old);
  EXPECT_NE(old.at(std::string(kAdapterWeightsFile)), made.at(std::string(kAdapterWeightsFile)));
  const fs::path cut = root_ / "cut";
  const auto trees = trace::at_every_cut(
      root_ / "out", cut, [&] { publish(4); },
      [&](bool finished) {
        const Tree before = trace::tree_of(cut);
        if (fs::exists(cut / kAdapterConfigFile)) {  // PEFT would read it
          const std::string weights(kAdapterWeightsFile);
          const Tree& whole = before.at(weights) == old.at(weights) ? old : made;
          for (const auto& [path, text] : whole) EXPECT_EQ(before.at(path), text) << path;
        }
        recover_result(cut);
        const Tree after = trace::tree_of(cut);
        EXPECT_TRUE(after == made || (after == old && !finished));
      });
  EXPECT_GT(trees, 40U);
}

TEST_F(PublishTest, AFreshRunFinishesItAndIsRefused) {
  fs::copy(fs::path(HONE_FIXTURES) / "parity/tiny_llama/adapter", root_ / "out");
  std::ofstream(root_ / "out" / kPlanFile) << "{}";
  leave_half(root_ / "out");
  fs::rename(root_ / "out" / kAdapterWeightsFile, root_ / "out/.hone-result" / kAdapterWeightsFile);
  EXPECT_THROW(RunDirectory(plan("out")), base::UserError) << "it would be written over";
  EXPECT_TRUE(fs::exists(root_ / "out" / kAdapterConfigFile));
  EXPECT_TRUE(fs::exists(root_ / "out" / kAdapterWeightsFile));
  EXPECT_FALSE(fs::exists(root_ / "out/.hone-result"));
}

TEST_F(PublishTest, WhoeverNamesTheAdapterFinishesIt) {
  fs::copy(fs::path(HONE_FIXTURES) / "parity/tiny_llama/adapter", root_ / "out");
  std::ofstream(root_ / "out" / kPlanFile) << "{}";
  leave_half(root_ / "out");
  EXPECT_EQ(plan("new", {"--adapter_name_or_path", (root_ / "out").string()}).adapter_name_or_path,
            (root_ / "out").string());
  EXPECT_TRUE(fs::exists(root_ / "out" / kAdapterConfigFile));
  EXPECT_FALSE(fs::exists(root_ / "out/.hone-result"));
}

TEST_F(PublishTest, WhatAnEarlierVersionStagedIsCleared) {
  fs::create_directories(root_ / "out/.final.partial");
  fs::create_directories(root_ / "out/.final");
  std::ofstream(root_ / "out/.final" / kAdapterWeightsFile) << "new";
  std::ofstream(root_ / "out" / kAdapterWeightsFile) << "old";
  recover_result(root_ / "out");
  EXPECT_EQ(trace::tree_of(root_ / "out"), Tree({{std::string(kAdapterWeightsFile), "new"}}));
  fs::create_directories(root_ / "out/.final");
  std::ofstream(root_ / "out/.final/thesis") << "years";
  recover_result(root_ / "out");
  EXPECT_TRUE(fs::exists(root_ / "out/.final/thesis")) << "not hone's";
}

}  // namespace publish_test
}  // namespace hone::train
