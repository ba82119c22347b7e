#include "commands/crash_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/json.h"
#include "base/where.h"
#include "doctor/crash_text.h"
#include "train/run_folder.h"

namespace hone::commands {

namespace {

constexpr std::array<int, 5> kSignals = {SIGFPE, SIGSEGV, SIGILL, SIGBUS, SIGABRT};
constexpr std::size_t kStackBytes =
    64 << 10;  // a stack of its own: SIGSEGV may mean that there is no other left

// Made before anything can go wrong; a handler only reads them.
std::array<char, 4096> folder_text{}, folder_json{};
alignas(16) std::array<char, kStackBytes> stack{};
volatile sig_atomic_t dying = 0;

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
    const int fd = ::open(one->c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) continue;
    write_all(fd, report.view());
    ::close(fd);
    return one->view();
  }
  return {};
}

void on_crash(int signal, siginfo_t* info, void* /*context*/) {
  static doctor::FixedText path, words;
  // SA_RESETHAND has put the default action back: it comes when this returns.
  if (dying == 0) {
    dying = 1;
    const doctor::CrashFacts facts = doctor::crash_facts(signal, info->si_code, ::getpid());
    const std::string_view report = write_report(path, facts);
    doctor::crash_words(words, facts, folder_text.data(), report);
    write_all(STDERR_FILENO, words.view());
  }
  ::raise(signal);
}

// ---- HONE_CRASH
struct Planned {
  int signal = 0;
  std::int64_t step = 0;
  std::string op;
};
Planned& planned() {
  static Planned one;
  return one;
}

void die_as_planned(const char* op) {
  const Planned& plan = planned();
  if (plan.op == op && base::where.step.load(std::memory_order_relaxed) >= plan.step) std::raise(plan.signal);
}

void plan_a_crash(std::string_view asked) {
  const std::size_t at = asked.find('@');
  if (at == std::string_view::npos) return;
  std::string_view op = asked.substr(at + 1);
  if (const std::size_t colon = op.find(':'); colon != std::string_view::npos) {
    const std::string_view step = op.substr(colon + 1);
    std::from_chars(step.data(), step.data() + step.size(), planned().step);
    op = op.substr(0, colon);
  }
  planned().op = op;
  for (const int signal : {SIGFPE, SIGSEGV, SIGILL, SIGBUS, SIGABRT, SIGKILL}) {
    const std::string_view name = signal == SIGKILL ? "SIGKILL" : doctor::signal_name(signal);
    if (asked.substr(0, at) == name) planned().signal = signal;
  }
  if (planned().signal != 0) base::where.on_enter.store(&die_as_planned);
}

}  // namespace

void watch_crash_signals(const std::filesystem::path& folder) {
  keep(folder_text, folder.string());
  keep(folder_json, base::dump_json(base::Json(folder.string())));
  const stack_t own = {.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  ::sigaltstack(&own, nullptr);
  for (const int signal : kSignals) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction action = {};
    action.sa_sigaction = &on_crash;
    action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_RESETHAND);
    sigaction(signal, &action, nullptr);
  }
  if (const char* asked = std::getenv("HONE_CRASH")) plan_a_crash(asked);
}

}  // namespace hone::commands
