#include "base/process/process_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>

namespace hone::base {
namespace process_memory_test {

class FreeMemoryTest : public testing::Test {
 protected:
  void SetUp() override { write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n"); }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  FreeMemory found() const { return free_memory_and_limit(root_ / "proc", root_ / "cgroup"); }
  std::int64_t free() const { return free_memory(root_ / "proc", root_ / "cgroup"); }
  fs::path root_ = fs::temp_directory_path() / ("hone_memory_" + std::to_string(getpid()));
};

TEST(ProcessMemory, SeesThisProcessGrow) {
  const ProcessMemory before = process_memory();
  constexpr std::size_t kBytes = 64U << 20U;
  // Fresh pages: a block of the heap may be one that an earlier test has already touched.
  void* const block =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  const ProcessMemory after = process_memory();
  ::munmap(block, kBytes);
  EXPECT_GT(after.peak, static_cast<std::int64_t>(kBytes));
  EXPECT_GE(after.peak, after.resident);
  EXPECT_GT(after.resident - before.resident, static_cast<std::int64_t>(kBytes / 2));
}

TEST(ProcessMemory, WithoutProcThePeakIsTheSystemsOwn) {
  const ProcessMemory found = process_memory("/nowhere");
  EXPECT_EQ(found.resident, 0);
  EXPECT_GT(found.peak, 1 << 20);
}

TEST_F(FreeMemoryTest, IsTheMachinesWithoutACgroup) {
  EXPECT_EQ(free(), 8000 * 1024);
  EXPECT_EQ(free_memory("/nowhere", "/nowhere"), 0);
}

TEST_F(FreeMemoryTest, IsTheLeastOfTheCgroupsAboveTheProcess) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("cgroup/job/step/memory.max", "max\n");
  write("cgroup/job/step/memory.current", "1000\n");
  EXPECT_EQ(free(), 8000 * 1024);
  write("cgroup/job/memory.max", "5000000\n");
  write("cgroup/job/memory.current", "3000000\n");
  EXPECT_EQ(free(), 2000000);
  write("cgroup/job/memory.stat", "anon 1\ninactive_file 500000\n");
  EXPECT_EQ(free(), 2500000) << "page cache can be dropped";
}

TEST_F(FreeMemoryTest, ReadsTheFirstKindOfCgroupAndAContainersRoot) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/host/path/not/mounted\n0::/\n");
  write("cgroup/memory/memory.limit_in_bytes", "4000000\n");
  write("cgroup/memory/memory.usage_in_bytes", "1000000\n");
  EXPECT_EQ(free(), 3000000);
  write("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(free(), 8000 * 1024);
  write("cgroup/memory/memory.limit_in_bytes", "900000\n");
  EXPECT_EQ(free(), 0);
}

TEST_F(FreeMemoryTest, NamesTheCgroupThatLeavesLess) {
  EXPECT_EQ(found().limit, "") << "the machine itself";
  write("proc/self/cgroup", "0::/job/step\n");
  write("cgroup/job/memory.max", "5000000\n");
  write("cgroup/job/memory.current", "3000000\n");
  EXPECT_EQ(found().limit, "the cgroup limit of 0.01 GB (/job)");
  write("cgroup/job/memory.max", "50000000000\n");
  EXPECT_EQ(found().limit, "") << "a limit that leaves more than the machine has";
}

TEST_F(FreeMemoryTest, IsBoundedByTheAddressesOfUlimit) {
  write("proc/self/status", "VmSize:\t    3000 kB\nVmRSS:\t   100 kB\nVmData:\t    1000 kB\n");
  const std::string head = "Limit                     Soft Limit           Hard Limit           Units     \n";
  const auto row = [](const std::string& name, const std::string& soft) {
    return name + std::string(26 - name.size(), ' ') + soft + std::string(21 - soft.size(), ' ') +
           "123              bytes     \n";
  };
  write("proc/self/limits", head + row("Max address space", "unlimited") + row("Max data size", "unlimited"));
  EXPECT_EQ(free(), 8000 * 1024) << "the hard limit is not the one that counts";
  write("proc/self/limits", head + row("Max address space", "4096000") + row("Max data size", "unlimited"));
  EXPECT_EQ(free(), 4096000 - 3000 * 1024);
  EXPECT_EQ(found().limit, "`ulimit -v` of 0.00 GB");
  write("proc/self/limits", head + row("Max address space", "4096000") + row("Max data size", "1536000"));
  EXPECT_EQ(free(), 1536000 - 1000 * 1024);
  EXPECT_EQ(found().limit, "`ulimit -d` of 0.00 GB");
  write("proc/self/limits", head + row("Max address space", "1000") + row("Max data size", "unlimited"));
  EXPECT_EQ(free(), 0) << "nothing is left";
  write("proc/self/status", "VmSize:\t    9000 kB\nVmRSS:\t   100 kB\nVmData:\t    9000 kB\n");
  write("proc/self/limits",
        head + row("Max address space", "unlimited") + row("Max data size", "1000000000"));
  EXPECT_EQ(free(), 8000 * 1024) << "all ten digits count";
}

}  // namespace process_memory_test
}  // namespace hone::base
