#include "commands/process/crash_signals.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "base/files/mapped_files.h"
#include "base/json.h"
#include "base/process/signal_names.h"
#include "base/process/signal_stack.h"
#include "base/where.h"
#include "doctor/crash_text.h"
#include "train/saves/run_folder.h"

namespace hone::commands {

namespace {

constexpr std::array<int, 5> kSignals = {SIGFPE, SIGSEGV, SIGILL, SIGBUS, SIGABRT};

// Made before anything can go wrong; a handler only reads them.
std::array<char, 4096> folder_text{}, folder_json{};

// The thread that writes the last words; 0: none yet. And how far it got: a fault in the handler comes back.
std::atomic<pid_t> writer = 0;
enum class Stage { kBegin, kReport, kWords };
std::atomic<Stage> crash_stage = Stage::kBegin;

void keep(std::array<char, 4096>& to, const std::string& text) {
  if (text.size() < to.size()) std::memcpy(to.data(), text.c_str(), text.size() + 1);
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

// The report's path, or "" when neither folder can be written to.
std::string_view write_report(doctor::FixedText& path, const doctor::CrashFacts& facts) {
  static doctor::FixedText report, here;
  doctor::crash_json(report, facts, folder_json.data());
  path << std::string_view(folder_text.data()) << "/" << train::kCrashPrefix << facts.pid << ".json";
  here << train::kCrashPrefix << facts.pid << ".json";
  for (doctor::FixedText* one : {&path, &here}) {
    const int fd = ::open(one->c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) continue;
    write_all(fd, report.view());
    ::close(fd);
    return one->view();
  }
  return {};
}

// Ends the process by `signal`'s own action, whatever is installed or blocked.
[[noreturn]] void die(int signal) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);
}

// Another thread is writing, and ends the process. It may hang in a write, to a pipe that nobody reads.
[[noreturn]] void wait_for_the_end(int signal) {
  for (int second = 0; second < 60; ++second) {
    timespec left = {.tv_sec = 1, .tv_nsec = 0};
    while (::nanosleep(&left, &left) != 0) {
    }
  }
  die(signal);
}

void on_crash(int signal, siginfo_t* info, void* /*context*/) {
  static doctor::FixedText path, words;
  static doctor::CrashFacts facts;
  static std::string_view report;
  // The kernel's own, of a file that was truncated: base::require_readable() names it (base/files/mapped_files.h).
  if (signal == SIGBUS && info->si_code > 0 && base::absorb_unreadable(info->si_addr)) return;
  const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
  pid_t nobody = 0;
  if (!writer.compare_exchange_strong(nobody, self) && nobody != self) wait_for_the_end(signal);
  // What faulted while it was written is left out the second time.
  if (crash_stage == Stage::kBegin) {
    crash_stage = Stage::kReport;
    facts = doctor::crash_facts(signal, info->si_code, ::getpid());
    report = write_report(path, facts);
  }
  if (crash_stage == Stage::kReport) {
    crash_stage = Stage::kWords;
    doctor::write_crash_message(words, facts, folder_text.data(), report);
    write_all(STDERR_FILENO, words.view());
  }
  die(signal);
}

// ---- HONE_CRASH
constexpr int kStackOverflow = -1;  // no signal's number: the thread's stack is used up

struct Planned {
  // the first by the thread that enters the operator, the others by threads of their own
  std::vector<int> signals;
  std::int64_t step = 0;
  std::string op;
};
Planned& planned() {
  static Planned one;
  return one;
}

int use_up_stack(volatile char* above) {
  volatile char block[4096];
  block[0] = above[0];
  return block[0] == 'x' ? 0 : use_up_stack(block) + block[0];
}

void fault(int signal) {
  base::install_signal_stack();
  volatile char first = 0;
  if (signal == kStackOverflow) use_up_stack(&first);
  std::raise(signal);
}

void die_as_planned(const char* op) {
  static std::atomic<bool> begun = false;
  const Planned& plan = planned();
  if (plan.op != op || base::where.step.load(std::memory_order_relaxed) < plan.step) return;
  if (begun.exchange(true)) return;
  static std::atomic<std::size_t> ready = 0;
  for (std::size_t i = 1; i < plan.signals.size(); ++i) {
    std::thread([i, &plan] {
      for (++ready; ready < plan.signals.size();) {
      }
      fault(plan.signals[i]);
    }).detach();
  }
  for (++ready; ready < plan.signals.size();) {
  }
  fault(plan.signals[0]);
}

int planned_signal(std::string_view name) {
  if (name == "STACK") return kStackOverflow;
  return base::signal_number(name);
}

void plan_a_crash(std::string_view asked) {
  const std::size_t at = asked.find('@');
  if (at == std::string_view::npos) return;
  std::string_view op = asked.substr(at + 1), names = asked.substr(0, at);
  if (const std::size_t colon = op.find(':'); colon != std::string_view::npos) {
    const std::string_view step = op.substr(colon + 1);
    std::from_chars(step.data(), step.data() + step.size(), planned().step);
    op = op.substr(0, colon);
  }
  planned().op = op;
  while (!names.empty()) {
    const std::size_t end = std::min(names.find('+'), names.size());
    const int signal = planned_signal(names.substr(0, end));
    if (signal == 0) return;
    planned().signals.push_back(signal);
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  if (!planned().signals.empty()) base::where.on_enter.store(&die_as_planned);
}

}  // namespace

void watch_crash_signals(const std::filesystem::path& folder) {
  keep(folder_text, folder.string());
  keep(folder_json, base::dump_json(base::Json(folder.string())));
  base::install_signal_stack();
  for (const int signal : kSignals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_sigaction = &on_crash;
    // Without SA_RESETHAND: a second thread that faults meanwhile would meet the default action, and end the
    // process before the first has written. A fault in the handler itself comes back to it (SA_NODEFER).
    action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_NODEFER);
    sigfillset(&action.sa_mask);
    for (const int fatal : kSignals) sigdelset(&action.sa_mask, fatal);
    sigaction(signal, &action, nullptr);
  }
  if (const char* asked = std::getenv("HONE_CRASH")) plan_a_crash(asked);
}

}  // namespace hone::commands
