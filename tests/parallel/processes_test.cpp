// Several processes on this host, over Gloo and TCPStore: this program, started as `test_parallel rank NAME`.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "parallel/gloo/c10d_ranks.h"
#include "parallel/place.h"

namespace hone::parallel::processes_test {

// A listening socket on a port of its own.
class HeldPort {
 public:
  HeldPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  ~HeldPort() { close(fd_); }
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

int free_port() {
  return HeldPort().port();
}

struct Ended {
  int code = -1;  // of exit; -signal
  std::string out;
};

class Process {
 public:
  // net: a network namespace to run in; empty: ours.
  Process(const std::string& name, const Environment& place, const std::string& net = {}) {
    out_ = testing::TempDir() + "hone_rank_" + std::to_string(getpid()) + "_" + std::to_string(counter++);
    std::vector<std::string> variables = {"OMP_NUM_THREADS=1", "PATH=/usr/bin:/bin"};
    for (const auto& [key, value] : place) variables.push_back(key + "=" + value);
    std::vector<char*> environment;
    for (std::string& one : variables) environment.push_back(one.data());
    environment.push_back(nullptr);
    std::vector<std::string> words = {std::filesystem::read_symlink("/proc/self/exe").string(), "rank", name};
    if (!net.empty()) words.insert(words.begin(), {"ip", "netns", "exec", net});
    std::vector<char*> argv;
    for (std::string& one : words) argv.push_back(one.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    EXPECT_EQ(posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), environment.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)), out_(std::move(other.out_)) {}
  Process& operator=(Process&&) = delete;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ > 0) wait(true);
  }

  void signal(int number) const { kill(pid_, number); }
  Ended wait(bool end = false) {
    if (end) signal(SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    Ended ended;
    ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    std::ostringstream text;
    text << std::ifstream(out_).rdbuf();
    ended.out = text.str();
    unlink(out_.c_str());
    return ended;
  }

 private:
  static inline int counter = 0;
  pid_t pid_ = -1;
  std::string out_;
};

Environment place_of(int rank, int size, int port, bool launcher_hosts = false) {
  Environment place = {{"RANK", std::to_string(rank)},
                       {"WORLD_SIZE", std::to_string(size)},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", std::to_string(port)}};
  if (launcher_hosts) {
    place["TORCHELASTIC_RUN_ID"] = "test";
    place["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  }
  return place;
}

// `size` ranks of one name; the launcher's store is this process's.
std::vector<Process> start(const std::string& name, int size, int port, bool launcher_hosts) {
  std::vector<Process> all;
  for (int r = 0; r < size; ++r) all.emplace_back(name, place_of(r, size, port, launcher_hosts));
  return all;
}

std::set<std::string> lines_with(const std::string& text, const std::string& prefix) {
  std::set<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(prefix)) out.insert(line);
  }
  return out;
}

void expect_part(const Ended& ended, const std::string& part) {
  EXPECT_NE(ended.out.find(part), std::string::npos) << part << " is not in\n" << ended.out;
}

TEST(Processes, SumsOfOneTwoFourAndEightAreEqualBits) {
  std::set<std::string> sums, others;
  for (const int size : {1, 2, 3, 4, 8}) {
    auto all = start("work", size, free_port(), false);
    for (Process& one : all) {
      const Ended ended = one.wait();
      EXPECT_EQ(ended.code, 0) << ended.out;
      expect_part(ended, "well");
      (size == 3 ? others : sums).merge(lines_with(ended.out, "sum "));
    }
  }
  EXPECT_EQ(sums.size(), 1U) << "1, 2, 4 and 8 ranks";
  EXPECT_EQ(others.size(), 1U) << "3 ranks";
}

TEST(Processes, TwoRunsOneAfterTheOtherOnALaunchersStore) {
  const HostedStore store(0);
  for (int run = 0; run < 2; ++run) {
    auto all = start("work", 2, store.port(), true);
    for (Process& one : all) EXPECT_EQ(one.wait().code, 0);
  }
}

// Three ranks of which rank 1 fails. Several of these run at once, since they mostly wait.
class Trio {
 public:
  Trio(std::string name, bool launcher_hosts) : name_(std::move(name)) {
    if (launcher_hosts) store_.emplace(0);
    all_ = start(name_, 3, store_ ? store_->port() : free_port(), launcher_hosts);
  }
  // What ranks 0 and 2 say. `ends_itself`: rank 1 does; else it is killed when the others have ended.
  std::vector<Ended> others(bool ends_itself, int expected_code) {
    std::vector<Ended> out;
    out.push_back(all_[0].wait());
    out.push_back(all_[2].wait());
    const Ended one = all_[1].wait(!ends_itself);
    EXPECT_EQ(one.code, expected_code) << one.out;
    for (const Ended& ended : out) {
      expect_part(ended, "step 3, gradients");
      expect_part(ended, "of 3");
      EXPECT_EQ(lines_with(ended.out, "[W").size(), 0U) << ended.out;
    }
    return out;
  }

 private:
  std::string name_;
  std::optional<HostedStore> store_;
  std::vector<Process> all_;
};

TEST(Processes, AKilledRankIsNamed) {
  std::array<Trio, 2> both = {Trio("killed", true), Trio("killed", false)};
  for (Trio& trio : both) {
    for (const Ended& ended : trio.others(true, -SIGKILL)) {
      EXPECT_EQ(ended.code, 3);
      expect_part(ended, "rank 1 on host ");
      expect_part(ended, "was lost: its process is gone, and it left no error");
      expect_part(ended, "process is gone");
    }
  }
}

TEST(Processes, AStoppedRankAndAHangingOneAreNamed) {
  Trio stopped("stopped", true), hanging("hangs", true);
  for (const Ended& ended : stopped.others(false, -SIGKILL)) {
    EXPECT_EQ(ended.code, 3);
    expect_part(ended, "did not come within 1 s: its process is stopped");
    expect_part(ended, "SIGSTOP");
  }
  for (const Ended& ended : hanging.others(false, -SIGKILL)) {
    EXPECT_EQ(ended.code, 3);
    expect_part(ended, "did not come within 1 s, and is alive");
    expect_part(ended, "it hangs, or its work takes longer than the time-out allows");
  }
}

TEST(Processes, ADivergedRankIsNamed) {
  for (const Ended& ended : Trio("diverges", true).others(true, 2)) {
    EXPECT_EQ(ended.code, 2);
    expect_part(ended, "step 3, evaluation, number 2");
  }
}

TEST(Processes, AnErrorOfOneRankIsSaidByTheOthers) {
  std::array<Trio, 2> both = {Trio("errs", true), Trio("errs", false)};
  for (Trio& trio : both) {
    for (const Ended& ended : trio.others(true, 0)) {
      EXPECT_EQ(ended.code, 2);
      expect_part(ended, "ended with an error: [train.jsonl:7] expected a string");
    }
  }
}

TEST(Processes, AStoreThatDoesNotAnswerKeepsNobodyWaiting) {
  // Rank 0 keeps the store and is stopped: what the others last did cannot be read, and that is said.
  auto all = start("stops-zero", 3, free_port(), false);
  for (const std::size_t r : {1, 2}) {
    const Ended ended = all[r].wait();
    EXPECT_EQ(ended.code, 3);
    expect_part(ended, "rank 0 on host ");
    expect_part(ended, "did not come within 1 s");
    expect_part(ended, "the store that they write it to does not answer");
  }
}

TEST(Processes, MissingRanksAreNamed) {
  Process alone("alone", place_of(0, 3, free_port()));
  const Ended ended = alone.wait();
  EXPECT_EQ(ended.code, 3);
  expect_part(ended, "ranks 1 and 2 did not come");
}

TEST(Processes, APortInUseIsNamed) {
  const HeldPort held;
  Process process("work", place_of(0, 2, held.port()));
  const Ended ended = process.wait();
  EXPECT_EQ(ended.code, 2);
  expect_part(ended, "port " + std::to_string(held.port()) + " is in use");
  expect_part(ended, "MASTER_PORT");
}

TEST(Processes, NoStoreAtMasterAddr) {
  Environment place = place_of(1, 2, free_port());
  Process nobody("alone", place);
  place["MASTER_ADDR"] = "no-such-host.invalid";
  Process nowhere("alone", place);
  const Ended ended = nobody.wait();
  EXPECT_EQ(ended.code, 2);
  expect_part(ended, "no connection to 127.0.0.1:");
  expect_part(nowhere.wait(), "no-such-host.invalid is no host that this machine can resolve");
}

TEST(Processes, TwoJobsOnOneStore) {
  const int port = free_port();
  Process first("pair", place_of(0, 3, port)), second("pair", place_of(1, 3, port)),
      again("pair", place_of(1, 3, port));
  const Ended a = second.wait(), b = again.wait();
  const bool first_refused = a.out.find("twice") != std::string::npos;
  expect_part(first_refused ? a : b, "rank 1 has come twice");
  EXPECT_EQ((first_refused ? a : b).code, 2);
  expect_part(first_refused ? b : a, "rank 2 did not come");
}

// Two network namespaces with a link between them, as two hosts: 10.77.0.1 in a(), 10.77.0.2 in b().
class TwoHosts {
 public:
  TwoHosts() {
    const std::string id = std::to_string(getpid());
    a_ = "honea" + id;
    b_ = "honeb" + id;
    const std::string link_a = "ha" + id, link_b = "hb" + id;
    there_ = ip("netns add " + a_) && ip("netns add " + b_) &&
             ip("link add " + link_a + " type veth peer name " + link_b) &&
             ip("link set " + link_a + " netns " + a_) && ip("link set " + link_b + " netns " + b_) &&
             ip("-n " + a_ + " addr add 10.77.0.1/24 dev " + link_a) &&
             ip("-n " + b_ + " addr add 10.77.0.2/24 dev " + link_b) && ip("-n " + a_ + " link set lo up") &&
             ip("-n " + b_ + " link set lo up") && ip("-n " + a_ + " link set " + link_a + " up") &&
             ip("-n " + b_ + " link set " + link_b + " up");
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;
  ~TwoHosts() {
    ip("netns del " + a_);
    ip("netns del " + b_);
  }
  bool there() const { return there_; }
  const std::string& a() const { return a_; }
  const std::string& b() const { return b_; }
  void cut() const { ip("-n " + b_ + " link set hb" + std::to_string(getpid()) + " down"); }

 private:
  static bool ip(const std::string& words) {
    return std::system(("ip " + words + " 2>/dev/null").c_str()) == 0;
  }
  std::string a_, b_;
  bool there_ = false;
};

TEST(Processes, SlowACutLinkIsNamedOnBothSides) {
  const TwoHosts hosts;
  if (!hosts.there()) GTEST_SKIP() << "no right to make network namespaces";
  std::vector<Process> all;
  for (int r = 0; r < 3; ++r) {
    Environment place = place_of(r, 3, 29'600);
    place["MASTER_ADDR"] = "10.77.0.1";
    all.emplace_back("loops", place, r == 0 ? hosts.a() : hosts.b());
  }
  // Until the ranks are in their barriers, for 8 s; each second of theirs is a pulse.
  std::this_thread::sleep_for(std::chrono::seconds(4));
  hosts.cut();
  for (Process& one : all) {
    const Ended ended = one.wait();
    EXPECT_EQ(ended.code, 3) << ended.out;
    expect_part(ended, "did not come within 1 s, and gives no sign of life");
    expect_part(ended, "cut off from the network");
  }
}

}  // namespace hone::parallel::processes_test
