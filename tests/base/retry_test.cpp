#include "base/files/retry.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/files/appended_file.h"
#include "base/files/file_errors.h"

namespace hone::base {

using std::chrono::milliseconds;

class Rules {
 public:
  explicit Rules(std::size_t repeats) {
    set_retry_rules(
        {.waits = std::vector<milliseconds>(repeats, milliseconds(1)),
         .on_wait = [this](const ErrorText& error, milliseconds) { told.push_back(error.found); }});
  }
  Rules(const Rules&) = delete;
  Rules& operator=(const Rules&) = delete;
  ~Rules() { set_retry_rules({}); }
  std::vector<std::string> told;
};

[[noreturn]] void fail(int error_number) {
  throw_system_error("/some/where", "write", error_number);
}

TEST(RetryStorage, RepeatsUntilItAnswers) {
  const Rules rules(3);
  int calls = 0;
  retry_storage([&] {
    if (++calls < 3) fail(ESTALE);
  });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(rules.told.size(), 2U);
}

TEST(RetryStorage, GivesUpWithTheLastError) {
  const Rules rules(3);
  int calls = 0;
  EXPECT_THROW(retry_storage([&] {
                 ++calls;
                 fail(EIO);
               }),
               StorageGone);
  EXPECT_EQ(calls, 4);
}

TEST(RetryStorage, AFullDiskWaitsForAPerson) {
  const Rules rules(3);
  for (const int error : {ENOSPC, EDQUOT, EACCES, EROFS, ENOENT}) {
    int calls = 0;
    EXPECT_THROW(retry_storage([&] {
                   ++calls;
                   fail(error);
                 }),
                 UserError);
    EXPECT_EQ(calls, 1) << error;
  }
}

TEST(RetryStorage, TheOuterOneRepeatsTheInner) {
  const Rules rules(2);
  int outer = 0, inner = 0;
  EXPECT_THROW(retry_storage([&] {
                 ++outer;
                 retry_storage([&] {
                   ++inner;
                   fail(ETIMEDOUT);
                 });
               }),
               StorageGone);
  EXPECT_EQ(outer, 3);
  EXPECT_EQ(inner, 3);
}

TEST(RetryStorage, ErrorsOfTheFileSystemLibraryCountToo) {
  const Rules rules(2);
  int calls = 0;
  retry_storage([&] {
    if (++calls < 2)
      throw std::filesystem::filesystem_error("x", std::error_code(ESTALE, std::system_category()));
  });
  EXPECT_EQ(calls, 2);
}

TEST(RetryStorage, NothingIsRepeatedAtFirst) {
  int calls = 0;
  EXPECT_THROW(retry_storage([&] {
                 ++calls;
                 fail(EIO);
               }),
               StorageGone);
  EXPECT_EQ(calls, 1);
}

std::string text_in(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(AppendedFile, KeepsNoHalfLine) {
  const fs::path path = fs::path(testing::TempDir()) / "hone_appended.jsonl";
  fs::remove(path);
  AppendedFile file(path);
  file.append("first\n");
  // A limit on the file's size: a write is cut, then fails.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit low{.rlim_cur = 10, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  EXPECT_THROW(file.append("a long second line\n"), UserError);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(text_in(path), "first\n");
  file.append("second\n");
  EXPECT_EQ(text_in(path), "first\nsecond\n");
  file.truncate(6);
  file.append("third\n");
  EXPECT_EQ(text_in(path), "first\nthird\n");
  fs::remove(path);
}

// A terminal whose other end was closed gives EIO.
TEST(AppendedFile, KeepsLinesWhileStorageDoesNotAnswer) {
  const fs::path folder = fs::path(testing::TempDir()) / "hone_appended_gone";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const fs::path path = folder / "metrics.jsonl", back = folder / "back";
  const int other_end = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(other_end, 0);
  ASSERT_EQ(::grantpt(other_end) + ::unlockpt(other_end), 0);
  fs::create_symlink(::ptsname(other_end), path);
  {
    AppendedFile file(path);
    file.append("first\n");
    ::close(other_end);
    EXPECT_NO_THROW(file.append("second\n"));
    std::ofstream(back) << "first\nsec";  // half of a line, as a server may have kept it
    fs::remove(path);
    fs::create_symlink(back, path);
    EXPECT_NO_THROW(file.append("third\n"));
  }
  EXPECT_EQ(text_in(back), "first\nsecond\nthird\n");
  fs::remove_all(folder);
}

}  // namespace hone::base
