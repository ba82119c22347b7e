#include "base/files/staging.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <optional>

#include "base/helpers.h"

namespace hone::base {
namespace staging_test {

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

mode_t mode_of(const fs::path& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

void killed(const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST(StagingNames, ThereAndBack) {
  EXPECT_EQ(staging_path("a/b.gguf"), "a/.hone-partial.b.gguf");
  EXPECT_EQ(final_of_staging("a/.hone-partial.b.gguf"), "a/b.gguf");
  EXPECT_EQ(final_of_staging("checkpoint-5.partial"), std::nullopt);
  EXPECT_EQ(final_of_staging(".hone-partial."), std::nullopt);
  const std::string longest(255, 'x');
  const fs::path cut = staging_path("a/" + longest);
  EXPECT_LE(cut.filename().string().size(), 255U);
  EXPECT_NE(cut, staging_path("a/" + std::string(254, 'x')));
  EXPECT_EQ(final_of_staging(cut), std::nullopt);
  const TempFolder folder;
  write_file_atomic(folder / longest, "text");
  EXPECT_EQ(read_text(folder / longest), "text");
}

TEST(StagingNames, AUsersOwnPartialsAreLeftAlone) {
  const TempFolder folder;
  fs::create_directory(folder / "mine.partial");
  put(folder / "mine.partial/thesis", "years");
  fs::create_directory(folder / "mine.hone-old");
  put(folder / "victim", "precious");
  fs::create_symlink("victim", folder / "x.gguf.partial");
  {
    StagedFolder staged(folder / "mine");
    put(staged.path() / "a", "1");
    staged.commit();
  }
  write_file_atomic(folder / "x.gguf", "bytes");
  EXPECT_EQ(read_text(folder / "mine.partial/thesis"), "years");
  EXPECT_TRUE(fs::exists(folder / "mine.hone-old"));
  EXPECT_EQ(read_text(folder / "victim"), "precious");
  EXPECT_EQ(entries(folder.path()), 6U);
}

TEST(StagedFolder, WhatHoneDidNotMakeIsNeverRemoved) {
  const TempFolder folder;
  const fs::path staging = staging_path(folder / "mine");
  fs::create_directory(staging);
  put(staging / "thesis", "years");
  EXPECT_TRUE(StagedFolder::recover(folder / "mine"));
  expect_says(message_of([&] { const StagedFolder staged(folder / "mine"); }),
              {"/mine]", "does not change it", "move it away"});
  EXPECT_EQ(read_text(staging / "thesis"), "years");
  fs::remove_all(staging);

  fs::create_directory(folder / "elsewhere");
  put(folder / "elsewhere/thesis", "years");
  fs::create_symlink("elsewhere", staging);
  EXPECT_TRUE(StagedFolder::recover(folder / "mine"));
  expect_says(message_of([&] { const StagedFolder staged(folder / "mine"); }), {"does not change it"});
  EXPECT_EQ(read_text(folder / "elsewhere/thesis"), "years");
}

TEST(StagedFolder, AFolderPutInThePlaceSinceIsKept) {
  const TempFolder folder;
  fs::create_directory(folder / "run");
  killed([&] {
    const StagedFolder* staged = new StagedFolder(folder / "run");
    put(staged->path() / "a", "new");
  });
  fs::rename(folder / "run", staging_path(folder / "run") / "old");
  fs::create_directory(folder / "run");
  put(folder / "run/mine", "1");
  expect_says(message_of([&] { StagedFolder::recover(folder / "run"); }), {"a folder was put there "
                                                                           "afterwards"});
  EXPECT_TRUE(fs::exists(folder / "run/mine"));
  EXPECT_TRUE(fs::exists(staging_path(folder / "run") / "old"));
}

TEST(StagedFolder, ALinkStaysAndItsFolderKeepsItsMode) {
  const TempFolder folder;
  fs::create_directories(folder / "disk/run");
  fs::permissions(folder / "disk/run", fs::perms(0750));
  fs::create_symlink("disk/run", folder / "run");
  StagedFolder staged(folder / "run");
  put(staged.path() / "a", "1");
  staged.commit();
  EXPECT_TRUE(fs::is_symlink(folder / "run"));
  EXPECT_EQ(read_text(folder / "disk/run/a"), "1");
  EXPECT_EQ(mode_of(folder / "disk/run"), 0750U);
  EXPECT_EQ(entries(folder / "disk"), 1U);
}

TEST(StagedFolder, WhatAnEarlierVersionLeftIsRecovered) {
  const TempFolder folder;
  const fs::path run = folder / "checkpoint-5";
  const auto make = [&](const char* name, const char* text) {
    fs::create_directory(folder / name);
    put(folder / name / "a", text);
  };
  make("checkpoint-5.partial", "new");
  make("checkpoint-5.hone-old", "old");
  EXPECT_TRUE(recover_former_staging(run));
  EXPECT_EQ(read_text(run / "a"), "old");
  make("checkpoint-5.hone-old", "older");
  EXPECT_TRUE(recover_former_staging(run));
  EXPECT_EQ(read_text(run / "a"), "old");
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(FileWriter, ALinkStaysAndItsTargetIsReplaced) {
  const TempFolder folder;
  fs::create_directory(folder / "real");
  put(folder / "real/a", "old");
  fs::create_symlink("real/a", folder / "one");
  fs::create_symlink("one", folder / "two");
  write_file_atomic(folder / "two", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "two") && fs::is_symlink(folder / "one"));
  EXPECT_EQ(read_text(folder / "real/a"), "new");
  EXPECT_EQ(entries(folder / "real"), 1U);
  fs::create_symlink("real/b", folder / "ahead");  // leads to nothing yet
  write_file_atomic(folder / "ahead", "made");
  EXPECT_EQ(read_text(folder / "real/b"), "made");
  fs::create_symlink("circle", folder / "circle");
  expect_says(message_of([&] { write_file_atomic(folder / "circle", "x"); }), {"circle]", "symbolic links"});
}

TEST(FileWriter, KeepsTheModeOfWhatItReplaces) {
  const TempFolder folder;
  const mode_t mask = ::umask(022);
  for (const mode_t mode : {mode_t{0600}, mode_t{0664}, mode_t{0755}}) {
    put(folder / "a", "old");
    fs::permissions(folder / "a", fs::perms(mode));
    {
      FileWriter writer(folder / "a");
      EXPECT_EQ(mode_of(staging_path(folder / "a")), mode) << "also while it is written";
      writer.write("new");
      writer.commit();
    }
    EXPECT_EQ(mode_of(folder / "a"), mode);
  }
  write_file_atomic(folder / "b", "new");
  EXPECT_EQ(mode_of(folder / "b"), 0644U);
  ::umask(mask);
}

TEST(FileWriter, KeepsTheOwnerForRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a file away";
  const TempFolder folder;
  put(folder / "a", "old");
  ASSERT_EQ(::chown((folder / "a").c_str(), 1234, 2345), 0);
  write_file_atomic(folder / "a", "new");
  struct stat status{};
  ASSERT_EQ(::stat((folder / "a").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 1234U);
  EXPECT_EQ(status.st_gid, 2345U);
}

TEST(FileWriter, NeverThroughALinkOrIntoAnotherFile) {
  const TempFolder folder;
  put(folder / "victim", "precious");
  fs::create_symlink("victim", staging_path(folder / "a"));
  expect_says(message_of([&] { write_file_atomic(folder / "a", "x"); }),
              {"/a]", "does not change it", "move it"});
  EXPECT_EQ(read_text(folder / "victim"), "precious");
  EXPECT_TRUE(fs::is_symlink(staging_path(folder / "a")));
  fs::remove(staging_path(folder / "a"));
  fs::create_hard_link(folder / "victim", staging_path(folder / "a"));
  write_file_atomic(folder / "a", "x");  // the name goes, the file that it also names stays
  EXPECT_EQ(read_text(folder / "victim"), "precious");
  EXPECT_EQ(read_text(folder / "a"), "x");
  EXPECT_EQ(entries(folder.path()), 2U);
}

TEST(FileWriter, ADeviceIsRefused) {
  const TempFolder folder;
  fs::create_symlink("/dev/null", folder / "a");
  expect_says(message_of([&] { write_file_atomic(folder / "a", "x"); }),
              {"/a]", "a device or pipe", "name a file"});
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(FileWriter, ASecondWriterIsRefusedAndAStalePartialIsCleared) {
  const TempFolder folder;
  std::optional<FileWriter> first(std::in_place, folder / "m.gguf");
  first->write("first");
  expect_says(message_of([&] { const FileWriter second(folder / "m.gguf"); }),
              {"/m.gguf]", "to be the only process that writes it", "another process",
               "choose another "
               "output"});
  first->commit();
  write_file_atomic(folder / "m.gguf", "second");  // the lock goes with the commit, even while `first` lives
  EXPECT_EQ(read_text(folder / "m.gguf"), "second");
  first.reset();
  EXPECT_EQ(entries(folder.path()), 1U);

  killed([&] {
    FileWriter writer(folder / "m.gguf");
    writer.write("torn");
  });
  killed([&] { (new FileWriter(folder / "m.gguf"))->write("torn"); });
  EXPECT_TRUE(fs::exists(staging_path(folder / "m.gguf")));
  EXPECT_EQ(read_text(folder / "m.gguf"), "second");
  write_file_atomic(folder / "m.gguf", "third");
  EXPECT_EQ(read_text(folder / "m.gguf"), "third");
  EXPECT_EQ(entries(folder.path()), 1U);
}

// Two programs that race for one name: each is told that it won or that it lost, and the file is a winner's.
TEST(FileWriter, RacingWritersNeverMix) {
  const TempFolder folder;
  std::vector<pid_t> children;
  for (int c = 0; c < 4; ++c) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    int bad = 0;
    for (int i = 0; i < 50; ++i) {
      try {
        FileWriter writer(folder / "a");
        for (int part = 0; part < 20; ++part) writer.write(std::string(10, static_cast<char>('a' + c)));
        writer.commit();
      } catch (const UserError& error) {
        if (std::string(error.what()).find("only process") == std::string::npos) bad = 1;
      }
      try {
        const std::string text = read_text(folder / "a");
        if (text != std::string(200, text[0])) bad = 2;
      } catch (const UserError&) {  // nobody has won yet
      }
    }
    ::_exit(bad);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(RemoveWholeFolder, RemovesAndKeepsWhatALinkLeadsTo) {
  const TempFolder folder;
  fs::create_directories(folder / "run/sub");
  put(folder / "run/sub/a", "1");
  fs::create_symlink("run", folder / "link");
  remove_whole_folder(folder / "link");
  EXPECT_TRUE(fs::exists(folder / "run/sub/a"));
  remove_whole_folder(folder / "run");
  remove_whole_folder(folder / "run");  // already gone
  EXPECT_EQ(entries(folder.path()), 0U);
}

TEST(Publish, AReaderFinishesWhatAKillLeftAndWaitsForAWriter) {
  const TempFolder folder;
  const auto write = [](const char* text) {
    return [text](const fs::path& to) {
      put(to / "config.json", text);
      put(to / "weights", text);
    };
  };
  publish(folder.path(), write("old"), "config.json");
  fs::permissions(folder / "weights", fs::perms(0600));
  publish(folder.path(), write("new"), "config.json");
  EXPECT_EQ(read_text(folder / "weights"), "new");
  EXPECT_EQ(mode_of(folder / "weights"), 0600U);
  EXPECT_EQ(entries(folder.path()), 2U);

  fs::create_directory(folder / ".hone-result");
  put(folder / ".hone-result/made-by-hone", "");
  fs::rename(folder / "config.json", folder / ".hone-result/config.json");
  {
    const FolderLock running(folder.path(), "another run");
    expect_says(message_of([&] { finish_publishing_before_reading(folder.path(), "config.json"); }),
                {"to be the only process that writes it"});
  }
  finish_publishing_before_reading(folder.path(), "config.json");
  EXPECT_EQ(read_text(folder / "config.json"), "new");
  EXPECT_EQ(entries(folder.path()), 2U);

  fs::create_directory(folder / ".hone-result");
  put(folder / ".hone-result/thesis", "years");
  expect_says(message_of([&] { finish_publishing(folder.path(), "config.json"); }), {"does not change it"});
  EXPECT_EQ(read_text(folder / ".hone-result/thesis"), "years");
}

}  // namespace staging_test
}  // namespace hone::base
