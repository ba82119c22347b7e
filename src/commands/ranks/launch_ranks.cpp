#include "commands/ranks/launch_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/exit_codes.h"
#include "base/process/launchers.h"
#include "base/process/signal_names.h"
#include "commands/process/environment.h"

namespace hone::commands {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kKept = std::size_t{32} << 10;  // of a rank's stderr
constexpr milliseconds kLastGrace{10'000};            // between SIGTERM and SIGKILL

sigset_t launch_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int one : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}) sigaddset(&set, one);
  return set;
}

// Variables by which another launcher says who a process is: a rank has those of `hone launch` only.
bool is_of_a_launcher(std::string_view entry) {
  return std::ranges::find(base::kLauncherVariables, entry) != base::kLauncherVariables.end() ||
         std::ranges::any_of(base::kLauncherPrefixes,
                             [&](std::string_view prefix) { return entry.starts_with(prefix); });
}

std::vector<std::string> environment_of(const RankCommand& command) {
  parallel::Environment variables = own_environment();
  std::erase_if(variables, [](const auto& one) { return is_of_a_launcher(one.first); });
  for (const auto& [name, value] : command.variables) variables[name] = value;
  std::vector<std::string> out;
  for (const auto& [name, value] : variables) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

enum class Output { kOurs, kErrors, kAll };

// In the child, between fork and exec: only what a signal handler may call.
[[noreturn]] void become(char** argv, char** environment, const cpu_set_t* processors, Output output,
                         int pipe, pid_t parent) {
  setpgid(0, 0);  // Ctrl-C of the terminal comes from the launcher only, once
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(base::kOurBug);  // it died before
  if (processors != nullptr) sched_setaffinity(0, sizeof *processors, processors);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  if (output != Output::kOurs) {
    dup2(output == Output::kAll ? pipe : nothing, STDOUT_FILENO);
    dup2(pipe, STDERR_FILENO);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(argv[0], argv, environment);
  _exit(127);
}

// One running rank.
class RankProcess {
 public:
  RankProcess(RankCommand command, Output output) : command_(std::move(command)), output_(output) { start(); }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess() {
    if (pid_ > 0) {
      signal(SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (pipe_ >= 0) close(pipe_);
  }

  int rank() const { return command_.rank; }
  int pipe() const { return pipe_; }
  bool lives() const { return pid_ > 0; }
  void signal(int number) const {
    if (pid_ > 0) kill(pid_, number);
  }

  // Reads what is there; shows it line by line, or keeps its end.
  void read_output() {
    std::array<char, 4096> buffer{};
    for (;;) {
      const ssize_t got = pipe_ < 0 ? 0 : read(pipe_, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got == 0 && pipe_ >= 0) {
        close(pipe_);
        pipe_ = -1;
      }
      if (got <= 0) break;
      text_.append(buffer.data(), static_cast<std::size_t>(got));
      output_ == Output::kAll ? show_lines() : keep_end();
    }
  }

  std::optional<RankEnd> ended() {
    int status = 0;
    if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    read_output();
    if (output_ == Output::kAll && !text_.empty()) {
      text_ += '\n';
      show_lines();
    }
    return RankEnd{.rank = rank(), .status = status, .shown = output_ != Output::kErrors, .said = text_};
  }

 private:
  void start() {
    std::array<int, 2> ends = {-1, -1};
    if (output_ != Output::kOurs && pipe2(ends.data(), O_CLOEXEC) != 0) refuse("pipe");
    std::vector<std::string> variables = environment_of(command_);
    const std::vector<char*> argv = pointers_to(command_.words), environment = pointers_to(variables);
    cpu_set_t processors;
    CPU_ZERO(&processors);
    for (const int one : command_.processors) CPU_SET(static_cast<unsigned>(one), &processors);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      become(const_cast<char**>(argv.data()), const_cast<char**>(environment.data()),
             command_.processors.empty() ? nullptr : &processors, output_, ends[1], parent);
    }
    if (ends[1] >= 0) close(ends[1]);
    pipe_ = ends[0];
    if (pipe_ >= 0) fcntl(pipe_, F_SETFL, O_NONBLOCK);
    if (pid_ < 0) refuse("fork");
  }

  [[noreturn]] void refuse(const char* call) const {
    throw base::UserError(
        {.where = "hone launch, rank " + std::to_string(rank()),
         .expected = "a new process",
         .found = std::string(call) + ": " + std::strerror(errno),
         .cause = "the limit of processes or open files (`ulimit -u`, `ulimit -n`) is reached",
         .fix = "raise that limit, or lower --nproc"});
  }

  void show_lines() {
    std::size_t begin = 0;
    for (std::size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n', begin)) {
      std::cout << "[rank " << rank() << "] " << text_.substr(begin, end - begin) << '\n';
      begin = end + 1;
    }
    text_.erase(0, begin);
    std::cout.flush();
  }

  void keep_end() {
    if (text_.size() > 2 * kKept) text_.erase(0, text_.size() - kKept);
  }

  RankCommand command_;
  Output output_;
  pid_t pid_ = -1;
  int pipe_ = -1;
  std::string text_;
};

// All ranks until the last one has ended.
class RankWatch {
 public:
  RankWatch(const std::vector<RankCommand>& commands, const RankRules& rules, int signals)
      : rules_(rules), signals_(signals) {
    for (const RankCommand& one : commands) {
      const bool ours = &one == commands.data();
      const Output output = rules.all_output ? Output::kAll : ours ? Output::kOurs : Output::kErrors;
      ranks_.push_back(std::make_unique<RankProcess>(one, output));
    }
  }

  LaunchedRanks run() {
    while (ends_.size() < ranks_.size()) {
      wait();
      pass_signals_on();
      for (const auto& rank : ranks_) rank->read_output();
      collect();
      end_late_ones();
    }
    return {std::move(ends_), stop_asked_};
  }

 private:
  void wait() {
    std::vector<pollfd> all = {{.fd = signals_, .events = POLLIN, .revents = 0}};
    for (const auto& rank : ranks_) {
      if (rank->pipe() >= 0) all.push_back({.fd = rank->pipe(), .events = POLLIN, .revents = 0});
    }
    int limit = -1;
    if (deadline_) {
      const auto left = std::chrono::duration_cast<milliseconds>(*deadline_ - Clock::now()) + milliseconds(1);
      limit = static_cast<int>(std::max<milliseconds::rep>(0, left.count()));
    }
    poll(all.data(), all.size(), limit);
  }

  void pass_signals_on() {
    signalfd_siginfo one{};
    while (read(signals_, &one, sizeof one) == static_cast<ssize_t>(sizeof one)) {
      const int number = static_cast<int>(one.ssi_signo);
      if (number == SIGCHLD) continue;
      stop_asked_ = true;
      to_all(number);
    }
  }

  void to_all(int number) {
    for (const auto& rank : ranks_) rank->signal(number);
  }

  void collect() {
    for (const auto& rank : ranks_) {
      std::optional<RankEnd> end = rank->ended();
      if (!end) continue;
      end->by_us = terminated_;
      if (end->status != 0 && !deadline_) deadline_ = Clock::now() + rules_.grace;
      ends_.push_back(std::move(*end));
    }
  }

  void end_late_ones() {
    if (!deadline_ || Clock::now() < *deadline_) return;
    to_all(terminated_ ? SIGKILL : SIGTERM);
    terminated_ = true;
    deadline_ = Clock::now() + kLastGrace;
  }

  RankRules rules_;
  int signals_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::vector<RankEnd> ends_;
  std::optional<Clock::time_point> deadline_;  // set when a rank has ended with an error
  bool terminated_ = false;
  bool stop_asked_ = false;
};

// 0 or the exit code; of a signal what it means for a restart.
int code_of(const RankEnd& end) {
  if (WIFEXITED(end.status)) return WEXITSTATUS(end.status);
  constexpr std::array kFromOutside = {SIGKILL, SIGTERM, SIGHUP, SIGINT, SIGXCPU};
  return std::ranges::find(kFromOutside, WTERMSIG(end.status)) != kFromOutside.end() ? kLostRank
                                                                                     : base::kOurBug;
}

bool only_saw_others(const RankEnd& end) {
  return WIFEXITED(end.status) && WEXITSTATUS(end.status) == kLostRank;
}

}  // namespace

LaunchedRanks run_launched(const std::vector<RankCommand>& commands, const RankRules& rules, int signals) {
  return RankWatch(commands, rules, signals).run();
}

LaunchSignals::LaunchSignals() {
  const sigset_t set = launch_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  descriptor_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  base::require(descriptor_ >= 0, "commands::LaunchSignals", "a signalfd");
}

LaunchSignals::~LaunchSignals() {
  close(descriptor_);
  const sigset_t set = launch_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int exit_code_of(const std::vector<RankEnd>& ends) {
  int code = 0;
  for (const RankEnd& end : ends) {
    if (end.status == 0 || end.by_us) continue;
    if (!only_saw_others(end)) return code_of(end);
    code = kLostRank;
  }
  // Ranks that the launcher had to end, after others had ended well.
  const bool some_by_us = std::ranges::any_of(ends, [](const RankEnd& end) { return end.by_us; });
  return code == 0 && some_by_us ? kLostRank : code;
}

std::vector<const RankEnd*> ends_to_tell(const std::vector<RankEnd>& ends) {
  // A rank that printed for itself has said what others with its exit code would say: the same mistake, or its error.
  const auto is_said = [&](const RankEnd& end) {
    if (WIFEXITED(end.status) && end.shown) return true;
    return WIFEXITED(end.status) && WEXITSTATUS(end.status) != base::kOurBug &&
           std::ranges::any_of(
               ends, [&](const RankEnd& other) { return other.shown && other.status == end.status; });
  };
  std::vector<const RankEnd*> out;
  for (const RankEnd& end : ends) {
    if (end.status != 0 && (end.by_us || !only_saw_others(end)) && !is_said(end)) out.push_back(&end);
  }
  const bool some_text =
      std::ranges::any_of(ends, [&](const RankEnd& end) { return end.status != 0 && is_said(end); }) ||
      std::ranges::any_of(out, [](const RankEnd* end) { return !end->said.empty(); });
  const auto saw = std::ranges::find_if(ends, only_saw_others);
  if (!some_text && saw != ends.end()) out.push_back(&*saw);
  return out;
}

std::string end_text(const RankEnd& end) {
  std::string out = WIFEXITED(end.status) ? "ended with code " + std::to_string(WEXITSTATUS(end.status))
                                          : "was killed by " + base::signal_text(WTERMSIG(end.status));
  return end.by_us ? out + ", by hone launch: it had not ended with the others" : out;
}

std::vector<int> own_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> out;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return out;
  for (int one = 0; one < CPU_SETSIZE; ++one) {
    if (CPU_ISSET(static_cast<unsigned>(one), &set)) out.push_back(one);
  }
  return out;
}

std::vector<int> processor_share(const std::vector<int>& all, int local, int count) {
  if (all.empty()) return {};
  const auto n = static_cast<std::ptrdiff_t>(all.size());
  if (n < count) return {all[static_cast<std::size_t>(local % n)]};
  return {all.begin() + n * local / count, all.begin() + n * (local + 1) / count};
}

}  // namespace hone::commands
