#include "base/files/mapped_files.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/files/file.h"

namespace hone::base {

void absorb(int, siginfo_t* info, void*) {
  if (absorb_unreadable(info->si_addr)) return;
  std::signal(SIGBUS, SIG_DFL);
}

class SignalHandler {
 public:
  SignalHandler() {
    struct sigaction action = {};
    action.sa_sigaction = &absorb;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, &before_);
  }
  SignalHandler(const SignalHandler&) = delete;
  SignalHandler& operator=(const SignalHandler&) = delete;
  ~SignalHandler() { sigaction(SIGBUS, &before_, nullptr); }

 private:
  struct sigaction before_ = {};
};

TEST(MappedFiles, ATruncatedOneIsNamedAndEndsNoProcess) {
  const SignalHandler handler;
  const fs::path path = fs::path(testing::TempDir()) / "hone_truncated.bin";
  constexpr std::size_t kBytes = 100'000;
  std::ofstream(path) << std::string(kBytes, 'x');
  const MappedFile file = MappedFile::open(path);
  EXPECT_NO_THROW(require_readable());
  fs::resize_file(path, 5'000);
  // volatile: read when it says so
  const auto* const bytes = reinterpret_cast<const volatile char*>(file.bytes().data());
  const auto at = [&](std::size_t i) { return static_cast<int>(bytes[i]); };
  EXPECT_EQ(at(100), 'x');
  EXPECT_NO_THROW(require_readable());
  EXPECT_EQ(at(kBytes - 1), 0);
  EXPECT_EQ(at(50'000), 0);
  try {
    require_readable();
    FAIL() << "a truncated file";
  } catch (const UserError& error) {
    EXPECT_EQ(error.text().where, path.string());
    EXPECT_EQ(error.text().found, "5000 bytes");
    EXPECT_NE(error.text().expected.find("100000 bytes"), std::string::npos);
  }
  EXPECT_NO_THROW(require_readable()) << "it is said once";
  fs::remove(path);
}

TEST(MappedFiles, OtherAddressesAreNotAbsorbed) {
  const int here = 0;
  EXPECT_FALSE(absorb_unreadable(&here));
  EXPECT_FALSE(absorb_unreadable(nullptr));
}

}  // namespace hone::base
