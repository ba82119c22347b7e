#include "doctor/running_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>

#include "base/json.h"
#include "base/process/signal_names.h"
#include "parallel/last_words.h"
#include "parallel/network.h"
#include "train/saves/run_folder.h"

namespace hone::doctor {

namespace {

constexpr double kNearlyUsedUp = 0.1;  // free, of what the process had and could take

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string out;
  std::getline(file, out);
  return out;
}

// Numbers have a fixed width, so that a later text covers an earlier one.
std::string text_of(const RunningState& state) {
  char text[768];
  const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
  const int size = std::snprintf(
      text, sizeof text,
      "{\"format\": \"hone-running-1\", \"pid\": %10lld, \"started\": %16lld, \"host\": \"%.64s\", "
      "\"boot\": \"%.64s\", \"total_steps\": %12lld, \"step\": %12lld, \"checkpoint\": %12lld, \"resident\": %16lld, \"free\": "
      "%16lld, \"ended_by\": %3d}\n",
      number(state.pid), number(state.started), state.host.c_str(), state.boot.c_str(),
      number(state.total_steps), number(state.step), number(state.checkpoint), number(state.resident),
      number(state.free), state.ended_by);
  return {text, static_cast<std::size_t>(size > 0 ? size : 0)};
}

constexpr int kEndingDigits = 3, kAfterDigits = 2;  // "%3d}\n"
std::atomic<int> ending_file = -1;                  // of the run that this process makes
std::atomic<std::int64_t> ending_place = 0;

}  // namespace

void note_ending_signal(int signal) {
  const int file = ending_file;
  if (file < 0 || signal < 0 || signal > 999) return;
  char digits[kEndingDigits] = {' ', ' ', ' '};
  for (int at = kEndingDigits - 1; at >= 0 && signal > 0; --at, signal /= 10)
    digits[at] = static_cast<char>('0' + signal % 10);
  [[maybe_unused]] const ssize_t written = ::pwrite(file, digits, sizeof digits, ending_place);
}

RunningFile::RunningFile(const base::fs::path& output_dir, const RunningState& first)
    : path_(output_dir / train::kRunningFile) {
  // A link of that name goes, as a file does; what it leads to is not written.
  ::unlink(path_.c_str());
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  update(first);
  if (fd_ < 0) return;
  ending_place = static_cast<std::int64_t>(text_of(first).size()) - kAfterDigits - kEndingDigits;
  ending_file = fd_;
}

RunningFile::~RunningFile() {
  if (fd_ < 0) return;
  ending_file = -1;
  ::close(fd_);
  ::unlink(path_.c_str());
}

void RunningFile::update(const RunningState& state) {
  if (fd_ < 0) return;
  const std::string text = text_of(state);
  [[maybe_unused]] const ssize_t written = ::pwrite(fd_, text.data(), text.size(), 0);
}

RunningState running_here() {
  return {.pid = ::getpid(),
          .boot = boot_id(),
          .host = parallel::host_name(),
          .started = parallel::this_process().started};
}

std::optional<RunningState> read_running(const base::fs::path& output_dir) {
  std::ifstream file(output_dir / train::kRunningFile);
  if (!file) return std::nullopt;
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const base::Json json = base::Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto word = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (word("format") != "hone-running-1") return std::nullopt;
  const auto number = [&](const char* name, std::int64_t otherwise) {
    const auto found = json.find(name);
    return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
  };
  return RunningState{.pid = number("pid", 0),
                      .boot = word("boot"),
                      .host = word("host"),
                      .started = number("started", 0),
                      .total_steps = number("total_steps", 0),
                      .step = number("step", 0),
                      .checkpoint = number("checkpoint", -1),
                      .resident = number("resident", 0),
                      .free = number("free", 0),
                      .ended_by = static_cast<int>(number("ended_by", 0))};
}

namespace {

bool is_running(const RunningState& state) {
  if (state.pid <= 0 || (::kill(static_cast<pid_t>(state.pid), 0) != 0 && errno != EPERM)) return false;
  if (state.started == 0) return true;
  const parallel::ProcessName process = {parallel::machine_name(), state.pid, state.started};
  return parallel::state_of(process) != parallel::ProcessState::kGone;
}

}  // namespace

Fate fate_of(const RunningState& state) {
  const std::string now = boot_id();
  const bool here = state.host.empty() || state.host == parallel::host_name();
  if (here && !state.boot.empty() && !now.empty() && state.boot != now) return Fate::kRestarted;
  if (here && is_running(state)) return Fate::kAlive;
  if (state.ended_by > 0) return Fate::kStopped;
  const double room = static_cast<double>(state.resident) + static_cast<double>(state.free);
  return state.resident > 0 && static_cast<double>(state.free) < kNearlyUsedUp * room ? Fate::kMemory
                                                                                      : Fate::kKilled;
}

std::string describe_fate(const RunningState& state, Fate fate) {
  const std::string memory = state.resident > 0 ? " (memory then: " + base::gigabytes(state.resident) +
                                                      " used, " + base::gigabytes(state.free) + " free)"
                                                : "";
  const std::string at =
      "at step " + std::to_string(state.step) + " of " + std::to_string(state.total_steps) + memory;
  switch (fate) {
    case Fate::kAlive:
      return "the run is still going, " + at;
    case Fate::kRestarted:
      return "the last run here ended when the machine was restarted, " + at;
    case Fate::kMemory:
      return "the last run here was killed " + at + ": probably the kernel's out-of-memory killer";
    case Fate::kStopped:
      return "the last run here was ended at once by a second " +
             std::string(state.ended_by == SIGINT ? std::string_view("Ctrl-C")
                                                  : base::signal_name(state.ended_by)) +
             ", " + at + ": what came after its newest checkpoint is lost";
    case Fate::kKilled:
      return "the last run here was killed " + at +
             ": by kill -9, a scheduler's limit, or the kernel when memory ran out";
  }
  return "";
}

}  // namespace hone::doctor
