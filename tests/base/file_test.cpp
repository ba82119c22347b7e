#include "base/files/file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>

#include "base/files/file_errors.h"
#include "base/files/staging.h"
#include "base/helpers.h"

namespace hone::base {
namespace file_test {

// Files of this process may not grow past `bytes` while it lives: write() then fails with EFBIG, as a full
// disk does with ENOSPC.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit old_{};
  void (*handler_)(int);
};

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

TEST(MappedFile, GivesTheBytesAndMoves) {
  const TempFolder folder;
  put(folder / "a", "hello");
  put(folder / "empty", "");
  MappedFile file = MappedFile::open(folder / "a");
  const MappedFile moved = std::move(file);
  ASSERT_EQ(moved.bytes().size(), 5U);
  EXPECT_EQ(std::to_integer<char>(moved.bytes()[1]), 'e');
  EXPECT_EQ(moved.path(), folder / "a");
  file = MappedFile::open(folder / "empty");
  EXPECT_TRUE(file.bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TempFolder folder;
  put(folder / "model.safetensors", "x");
  expect_says(message_of([&] { MappedFile::open(folder / "model.safetensor"); }),
              {"model.safetensor]", "no such file. Did you mean 'model.safetensors'?", "correct the path"});
  expect_says(message_of([&] { MappedFile::open(folder / "no" / "x"); }),
              {"its folder", "does not exist either"});
  expect_says(message_of([&] { MappedFile::open(folder.path()); }), {"expected a file", "found:  a folder"});
  expect_says(message_of([&] { MappedFile::open("/dev/null"); }), {"a device or pipe"});
}

TEST(ReadText, WholeFilesAndFaults) {
  const TempFolder folder;
  const std::string large(200'000, 'x');
  put(folder / "a.txt", large);
  EXPECT_EQ(read_text(folder / "a.txt"), large);
  EXPECT_EQ(read_text("/dev/null"), "");
  expect_says(message_of([&] { read_text(folder / "b.txt"); }), {"no such file. Did you mean 'a.txt'?"});
  expect_says(message_of([&] { read_text(folder.path()); }), {"found:  a folder"});
}

TEST(WriteFileAtomic, WritesAndReplaces) {
  const TempFolder folder;
  write_file_atomic(folder / "a", "one");
  write_file_atomic(folder / "a", "two");
  EXPECT_EQ(read_text(folder / "a"), "two");
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(WriteFileAtomic, AFullDiskLeavesTheOldFileAndNothingElse) {
  const TempFolder folder;
  write_file_atomic(folder / "a", "old");
  std::string message;
  {
    const FileSizeLimit limit(4096);
    message = message_of([&] { write_file_atomic(folder / "a", std::string(10'240, 'x')); });
  }
  expect_says(message, {"expected room for 10.0 KiB", "a limit on the size of files", "raise the limit"});
  EXPECT_EQ(read_text(folder / "a"), "old");
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(WriteFileAtomic, NoSpaceIsNamed) {
  const TempFolder folder;
  expect_says(message_of([&] { throw_system_error(folder / "a", "write", ENOSPC, 4); }),
              {"room for 4 bytes", "No space left on device", " free", "the disk is full"});
}

TEST(WriteFileAtomic, OtherFaults) {
  const TempFolder folder;
  expect_says(message_of([&] { write_file_atomic(folder / "no" / "a", ""); }),
              {"a folder of the path does not"});
  expect_says(message_of([&] { write_file_atomic(folder.path(), ""); }), {"found:  a folder"});
}

TEST(FileWriter, WithoutCommitNothingAppears) {
  const TempFolder folder;
  {
    FileWriter writer(folder / "a");
    writer.write("text");
    EXPECT_EQ(entries(folder.path()), 1U);
  }
  EXPECT_EQ(entries(folder.path()), 0U);
}

TEST(StagedFolder, AppearsWholeOrNotAtAll) {
  const TempFolder folder;
  const fs::path final_path = folder / "deep/run";
  {
    StagedFolder staged(final_path);
    put(staged.path() / "a", "1");
  }
  EXPECT_EQ(entries(folder / "deep"), 0U);
  StagedFolder staged(final_path / "");  // a slash at the end means the same folder
  fs::create_directory(staged.path() / "sub");
  put(staged.path() / "sub/a", "1");
  EXPECT_FALSE(fs::exists(final_path));
  staged.commit();
  EXPECT_EQ(read_text(final_path / "sub/a"), "1");
  EXPECT_EQ(entries(folder / "deep"), 1U);
}

TEST(StagedFolder, ReplacesTheOldFolderOnCommitOnly) {
  const TempFolder folder;
  fs::create_directory(folder / "run");
  put(folder / "run/old", "1");
  StagedFolder staged(folder / "run");
  put(staged.path() / "new", "2");
  EXPECT_EQ(read_text(folder / "run/old"), "1");
  staged.commit();
  EXPECT_FALSE(fs::exists(folder / "run/old"));
  EXPECT_EQ(read_text(folder / "run/new"), "2");
  EXPECT_EQ(entries(folder.path()), 1U);
}

TEST(StagedFolder, ASecondWriterIsRefused) {
  const TempFolder folder;
  StagedFolder staged(folder / "run");
  put(staged.path() / "a", "1");
  EXPECT_FALSE(StagedFolder::recover(folder / "run"));
  expect_says(message_of([&] { const StagedFolder second(folder / "run"); }),
              {"the only process", "another process"});
  staged.commit();
  EXPECT_EQ(read_text(folder / "run/a"), "1");
  const StagedFolder third(folder / "run");  // the lock does not outlive the commit's partial folder
}

TEST(StagedFolder, AKilledProcessKeepsNoLock) {
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    const StagedFolder staged(folder / "run");
    std::ofstream(staged.path() / "a") << "1";
    ::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(fs::exists(staging_path(folder / "run") / "new/a"));
  EXPECT_TRUE(StagedFolder::recover(folder / "run"));
  EXPECT_EQ(entries(folder.path()), 0U);
}

TEST(StagedFolder, RefusesAFileInItsPlace) {
  const TempFolder folder;
  put(folder / "run", "precious");
  expect_says(message_of([&] { const StagedFolder staged(folder / "run"); }),
              {"a folder or nothing", "a file"});
  EXPECT_EQ(read_text(folder / "run"), "precious");
}

TEST(FreeSpace, SaysWhatIsNeededAndFree) {
  const TempFolder folder;
  EXPECT_NO_THROW(require_free_space(folder / "not/yet/there", 1, "a checkpoint"));
  expect_says(message_of([&] { require_free_space(folder / "not/yet/there", 1ULL << 62, "a checkpoint"); }),
              {"not/yet/there]", "4.0 EiB free for a checkpoint", " free", "nearly full", "another folder"});
}

TEST(HumanBytes, Units) {
  EXPECT_EQ(human_bytes(0), "0 bytes");
  EXPECT_EQ(human_bytes(1), "1 byte");
  EXPECT_EQ(human_bytes(1023), "1023 bytes");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(269'060'552), "256.6 MiB");
  EXPECT_EQ(human_bytes(~0ULL), "16.0 EiB");
}

}  // namespace file_test
}  // namespace hone::base
