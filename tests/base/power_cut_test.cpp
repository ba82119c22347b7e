// What is on the disk when the process is killed or the machine loses power between any two calls of a write:
// the old whole thing or the new one, once the next start has looked at it.
#include <gtest/gtest.h>

#include "base/file_trace.h"
#include "base/files/file.h"
#include "base/files/staging.h"
#include "base/gguf/gguf_write.h"
#include "base/helpers.h"

namespace hone::base {
namespace power_cut_test {

using trace::Tree;

constexpr std::string_view kLast = "config.json";
const Tree kOldSet = {
    {"config.json", "old config"}, {"tokenizer.json", "old words"}, {"weights", "old weights"}};
const Tree kNewSet = {{"config.json", "new config"},
                      {"notes", "new notes"},
                      {"tokenizer.json", "new words"},
                      {"weights", "new weights"}};
// Beside a set at the top of a folder, and no part of it.
const Tree kBystanders = {{"checkpoint-5/", ""}, {"checkpoint-5/weights", "5"}, {"metrics.jsonl", "lines"}};

class PowerCutTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }
  fs::path root() {
    fs::create_directories(folder_ / "root");
    return folder_ / "root";
  }
  fs::path cut() const { return folder_ / "cut"; }
  // Every tree, with what `next_start` makes of it; `judge` judges the result.
  std::size_t check(const std::function<void()>& work, const std::function<void()>& next_start,
                    const std::function<void(const Tree&, bool finished)>& judge) {
    return trace::at_every_cut(root(), cut(), work, [&](bool finished) {
      const Tree before = trace::tree_of(cut());
      next_start();
      judge(trace::tree_of(cut()), finished);
      if (testing::Test::HasFailure() && !said_) {
        said_ = true;
        for (const auto& [path, text] : before) GTEST_LOG_(INFO) << path << ": " << text.substr(0, 60);
      }
    });
  }
  static Tree with(Tree a, const Tree& b) {
    a.insert(b.begin(), b.end());
    return a;
  }
  static void write_set(const fs::path& folder, const Tree& set) {
    for (const auto& [path, text] : set) write_file_atomic(folder / path, text);
  }

  const fs::path folder_ = trace::scratch("hone_power_cut");
  bool said_ = false;
};

TEST_F(PowerCutTest, AFileIsOldOrNew) {
  trace::lay(root(), {{"a", "old"}, {"b", "mine"}});
  const auto trees =
      check([&] { write_file_atomic(root() / "a", "new"); }, [&] { write_file_atomic(cut() / "b", "mine"); },
            [](const Tree& tree, bool finished) {
              const std::string text = tree.contains("a") ? tree.at("a") : "(none)";
              EXPECT_TRUE(text == "new" || (text == "old" && !finished)) << text;
            });
  EXPECT_GE(trees, 5U);
}

TEST_F(PowerCutTest, ANewFileIsWholeOrAbsentAndTheNextWriterClearsUp) {
  check(
      [&] {
        FileWriter writer(root() / "a");
        writer.write("ne");
        writer.write("w");
        writer.commit();
      },
      [&] {
        if (fs::exists(cut() / "a")) {
          EXPECT_EQ(read_text(cut() / "a"), "new");
        }
        write_file_atomic(cut() / "a", "newer");
      },
      [](const Tree& tree, bool) { EXPECT_EQ(tree, Tree({{"a", "newer"}})); });
}

TEST_F(PowerCutTest, AGgufIsWholeOrAbsent) {
  const std::vector<GgufEntry> metadata = {{"general.architecture", std::string("llama")}};
  const std::vector<GgufPlanned> tensors = {{.name = "t", .type = GgmlType::kF32, .shape = {8}}};
  const std::string bytes(32, 'x');
  check(
      [&] {
        GgufWriter writer(root() / "m.gguf", metadata, tensors);
        writer.append(std::as_bytes(std::span(bytes)));
        writer.finish();
      },
      [&] {
        if (fs::exists(cut() / "m.gguf")) {
          EXPECT_EQ(GgufFile::open(cut() / "m.gguf").tensors().size(), 1U);
        }
      },
      [](const Tree& tree, bool finished) { EXPECT_TRUE(!finished || tree.contains("m.gguf")); });
}

TEST_F(PowerCutTest, AFolderIsOldOrNew) {
  for (const bool replaces : {false, true}) {
    const Tree old = {{"deep/", ""}, {"deep/run/", ""}, {"deep/run/a", "old"}, {"deep/run/b", "old"}};
    trace::lay(root(), replaces ? old : Tree());
    const auto trees = check(
        [&] {
          StagedFolder staged(root() / "deep/run");
          write_file_atomic(staged.path() / "a", "new");
          fs::create_directory(staged.path() / "sub");
          write_file_atomic(staged.path() / "sub" / "c", "new");
          staged.commit();
        },
        [&] { EXPECT_TRUE(StagedFolder::recover(cut() / "deep/run")); },
        [&](const Tree& tree, bool finished) {
          const Tree made = {{"deep/", ""},
                             {"deep/run/", ""},
                             {"deep/run/a", "new"},
                             {"deep/run/sub/", ""},
                             {"deep/run/sub/c", "new"}};
          const bool as_before = replaces ? tree == old : tree.size() <= 1;
          EXPECT_TRUE(tree == made || (as_before && !finished)) << tree.size() << " " << replaces;
        });
    EXPECT_GT(trees, 20U);
  }
}

TEST_F(PowerCutTest, RecoveringAFolderMayBeCutToo) {
  const Tree old = {{"run/", ""}, {"run/a", "old"}};
  trace::lay(root(), old);
  std::set<Tree> left;
  check(
      [&] {
        StagedFolder staged(root() / "run");
        write_file_atomic(staged.path() / "a", "new");
        staged.commit();
      },
      [&] { left.insert(trace::tree_of(cut())); }, [](const Tree&, bool) {});
  for (const Tree& tree : left) {
    trace::lay(root(), tree);
    check([&] { StagedFolder::recover(root() / "run"); }, [&] { StagedFolder::recover(cut() / "run"); },
          [&](const Tree& after, bool) {
            EXPECT_TRUE(after == old || after == Tree({{"run/", ""}, {"run/a", "new"}}));
          });
  }
}

TEST_F(PowerCutTest, ARemovedFolderIsWholeOrAbsent) {
  const Tree old = {{"run/", ""}, {"run/a", "1"}, {"run/sub/", ""}, {"run/sub/b", "2"}};
  trace::lay(root(), old);
  check([&] { remove_whole_folder(root() / "run"); },
        [&] { EXPECT_TRUE(StagedFolder::recover(cut() / "run")); },
        [&](const Tree& tree, bool) { EXPECT_TRUE(tree.empty() || tree == old); });
}

// What a reader that knows nothing of .hone-result may take for a set: one with its `last` file.
void expect_a_stranger_reads_one_set(const fs::path& folder) {
  if (!fs::exists(folder / kLast)) return;
  const std::string word = read_text(folder / kLast).substr(0, 3);
  for (const auto& [path, text] : word == "old" ? kOldSet : kNewSet)
    EXPECT_EQ(read_text(folder / path), text);
}

TEST_F(PowerCutTest, ASetOfFilesIsOldOrNew) {
  for (const bool replaces : {true, false}) {
    const Tree before = with(replaces ? kOldSet : Tree(), kBystanders);
    trace::lay(root(), before);
    const auto trees =
        check([&] { publish(root(), [](const fs::path& to) { write_set(to, kNewSet); }, kLast); },
              [&] {
                expect_a_stranger_reads_one_set(cut());
                finish_publishing_before_reading(cut(), kLast);
                expect_a_stranger_reads_one_set(cut());
                finish_publishing(cut(), kLast);
              },
              [&](const Tree& tree, bool finished) {
                EXPECT_TRUE(tree == with(kNewSet, kBystanders) || (tree == before && !finished));
              });
    EXPECT_GT(trees, 40U);
  }
}

TEST_F(PowerCutTest, FinishingASetMayBeCutToo) {
  const Tree before = with(kOldSet, kBystanders), after = with(kNewSet, kBystanders);
  trace::lay(root(), before);
  std::set<Tree> left;
  trace::at_every_cut(
      root(), cut(), [&] { publish(root(), [](const fs::path& to) { write_set(to, kNewSet); }, kLast); },
      [&](bool) {
        const Tree tree = trace::tree_of(cut());
        if (tree.contains(".hone-result/") && left.size() < 60) left.insert(tree);
      });
  EXPECT_GT(left.size(), 5U);
  for (const Tree& tree : left) {
    trace::lay(root(), tree);
    check([&] { finish_publishing(root(), kLast); }, [&] { finish_publishing_before_reading(cut(), kLast); },
          [&](const Tree& found, bool) { EXPECT_EQ(found, after); });
  }
}

// The recorder itself: a rename that nothing synced may be lost, and bytes that nothing synced.
TEST_F(PowerCutTest, WhatIsNotSyncedMayBeLost) {
  trace::lay(root(), {{"a", "old"}});
  std::set<Tree> found;
  trace::at_every_cut(
      root(), cut(),
      [&] {
        const int fd = ::open((root() / "b").c_str(), O_WRONLY | O_CREAT, 0644);
        EXPECT_EQ(::write(fd, "new", 3), 3);
        ::close(fd);
        ::rename((root() / "b").c_str(), (root() / "a").c_str());
      },
      [&](bool finished) {
        if (finished) found.insert(trace::tree_of(cut()));
      });
  EXPECT_TRUE(found.contains({{"a", "old"}}));
  EXPECT_TRUE(found.contains({{"a", ""}})) << "a file without its bytes";
  EXPECT_TRUE(found.contains({{"a", "new"}}));
}

}  // namespace power_cut_test
}  // namespace hone::base
