#include "train/saves/run_lock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/json_tools.h"
#include "parallel/last_words.h"

namespace hone::train {

namespace fs = base::fs;
using base::Json;

class RunLockTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "hone_run_lock";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const parallel::ProcessName& process, std::int64_t pulse) const {
    base::write_file_atomic(folder_ / kLockFile, base::dump_json(Json({{"host", "node7"},
                                                                       {"machine", process.machine},
                                                                       {"pid", process.pid},
                                                                       {"started", process.started},
                                                                       {"pulse", pulse}})));
  }
  bool is_refused(const RunLockTimes& times = {}) const {
    try {
      const RunLock lock(folder_, times);
      return false;
    } catch (const base::UserError& error) {
      EXPECT_NE(error.text().found.find("another run of hone, which is still running"), std::string::npos);
      said_ = error.text().found;
      return true;
    }
  }

  fs::path folder_;
  mutable std::string said_;
  const RunLockTimes quick_{.pulse = std::chrono::milliseconds(20), .watch = std::chrono::milliseconds(300)};
};

TEST_F(RunLockTest, SaysWhoHasTheFolderAndLeavesNothing) {
  {
    RunLock first(folder_, quick_);
    EXPECT_FALSE(fs::exists(folder_ / kLockFile)) << "looking writes nothing";
    first.begin();
    EXPECT_TRUE(is_refused());
    EXPECT_NE(said_.find("process " + std::to_string(getpid())), std::string::npos) << said_;
    const auto pulse = [&] { return base::read_object(folder_ / kLockFile)["pulse"].get<std::int64_t>(); };
    const std::int64_t before = pulse();
    for (int i = 0; i < 200 && pulse() == before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_GT(pulse(), before);
  }
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_FALSE(is_refused());
}

TEST_F(RunLockTest, AProcessThatIsGoneOrAnotherOfItsNumberIsReplaced) {
  parallel::ProcessName gone = parallel::this_process();
  gone.pid = 4'000'000;  // above the kernel's limit
  write(gone, 1);
  EXPECT_FALSE(is_refused());
  parallel::ProcessName reused = parallel::this_process();
  reused.pid = getppid();  // it runs, and began at another time
  reused.started = 1;
  write(reused, 1);
  EXPECT_FALSE(is_refused());
}

TEST_F(RunLockTest, AProcessThatRunsHereIsNot) {
  // Its lock is not seen, as on a file system without locks.
  std::ifstream stat("/proc/" + std::to_string(getppid()) + "/stat");
  std::string line;
  std::getline(stat, line);
  std::istringstream rest(line.substr(line.rfind(')') + 1));
  parallel::ProcessName parent = parallel::this_process();
  parent.pid = getppid();
  std::string field;
  for (int i = 0; i < 20; ++i) rest >> field;
  parent.started = std::stoll(field);
  write(parent, 1);
  EXPECT_TRUE(is_refused());
  EXPECT_NE(said_.find("on host node7, process " + std::to_string(parent.pid)), std::string::npos) << said_;
}

TEST_F(RunLockTest, AnotherMachinesIsWatched) {
  const parallel::ProcessName there{.machine = "another", .pid = 4711, .started = 1};
  write(there, 1);
  std::atomic<bool> stop = false;
  std::thread beats([&] {
    for (std::int64_t pulse = 2; !stop; ++pulse) {
      write(there, pulse);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  EXPECT_TRUE(is_refused(quick_));
  stop = true;
  beats.join();
  const RunLock lock(folder_, quick_);
  ASSERT_EQ(lock.notes().size(), 1U);
  EXPECT_NE(lock.notes()[0].find("on host node7, process 4711, gave no sign of life"), std::string::npos);
}

}  // namespace hone::train
