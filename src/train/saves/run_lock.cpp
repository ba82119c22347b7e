#include "train/saves/run_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/json_tools.h"
#include "parallel/last_words.h"
#include "parallel/network.h"

namespace hone::train {

namespace fs = base::fs;
using base::Json;
using base::UserError;

namespace {

struct Holder {
  std::string host;
  parallel::ProcessName process;
  std::int64_t pulse = 0;

  std::string text() const { return "on host " + host + ", process " + std::to_string(process.pid); }
};

// Empty: no file, or none that is whole.
std::optional<Holder> read_holder(const fs::path& file) {
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return std::nullopt;
  const Json json = base::read_object(file);
  const auto text = [&](const char* name) {
    const Json value = json.value(name, Json());
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  const auto number = [&](const char* name) {
    const Json value = json.value(name, Json());
    return value.is_number_integer() ? value.get<std::int64_t>() : 0;
  };
  Holder out{.host = text("host"),
             .process = {.machine = text("machine"), .pid = number("pid"), .started = number("started")},
             .pulse = number("pulse")};
  if (out.process.pid <= 0) return std::nullopt;
  return out;
}

[[noreturn]] void refuse(const fs::path& folder, const std::optional<Holder>& holder) {
  throw UserError({.where = folder.string(),
                   .expected = "a folder that no other process writes to",
                   .found = "another run of hone, which is still running" +
                            (holder ? " " + holder->text() : std::string()),
                   .cause = "the same command was started twice",
                   .fix = "wait for it, stop it, or choose another folder"});
}

base::FolderLock lock_or_refuse(const fs::path& folder) {
  try {
    return base::FolderLock(folder, "another run of hone");
  } catch (const UserError&) {
    if (!fs::is_directory(folder)) throw;
    const auto holder = read_holder(folder / kLockFile);
    // A descriptor that a child process has kept may hold the kernel's lock longer than the run.
    refuse(folder, holder);
  }
}

// The folder is locked by this process, which the file system may not have told the other one.
std::string take_over(const fs::path& folder, const Holder& holder, const RunLockTimes& times) {
  const parallel::ProcessState state = parallel::state_of(holder.process);
  if (state == parallel::ProcessState::kGone) return "";
  if (state != parallel::ProcessState::kUnknown) {
    if (holder.process.pid == parallel::this_process().pid) return "";
    refuse(folder, holder);
  }
  const auto end = std::chrono::steady_clock::now() + times.watch;
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(times.pulse / 4);
    const auto now = read_holder(folder / kLockFile);
    if (!now) return "";
    if (now->pulse != holder.pulse || now->process.pid != holder.process.pid) refuse(folder, now);
  }
  return "the run that was here, " + holder.text() + ", gave no sign of life for " +
         std::to_string(times.watch.count() / 1000) + " s: this one takes its place";
}

}  // namespace

// Writes the file in place, so that nobody reads half of one.
struct RunLock::Pulse {
  Pulse(fs::path path, std::chrono::milliseconds every)
      : file(std::move(path)), name(parallel::this_process()), host(parallel::host_name()) {
    base::write_file_atomic(file, text());
    fd = ::open(file.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    thread = std::thread([this, every] { run(every); });
  }
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;
  ~Pulse() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    wake.notify_all();
    thread.join();
    if (fd >= 0) ::close(fd);
    std::error_code ignored;
    const auto now = read_holder(file);
    if (now && now->process.pid == name.pid && now->process.machine == name.machine)
      fs::remove(file, ignored);
  }

  std::string text() const {
    std::array<char, 24> digits{};
    std::snprintf(digits.data(), digits.size(), "%12lld", static_cast<long long>(pulse));
    return "{\"format\": \"hone-lock-1\", \"host\": " + base::dump_json(Json(host)) +
           ", \"machine\": " + base::dump_json(Json(name.machine)) +
           ", \"pid\": " + std::to_string(name.pid) + ", \"started\": " + std::to_string(name.started) +
           ", \"pulse\": " + digits.data() + "}\n";
  }

  void run(std::chrono::milliseconds every) {
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, every, [this] { return stop; })) {
      ++pulse;
      const std::string now = text();
      if (fd < 0) continue;
      lock.unlock();
      [[maybe_unused]] const ssize_t written = ::pwrite(fd, now.data(), now.size(), 0);
      [[maybe_unused]] const int synced =
          ::fdatasync(fd);  // else another host may read the old one for half a minute
      lock.lock();
    }
  }

  fs::path file;
  parallel::ProcessName name;
  std::string host;
  std::int64_t pulse = 0;
  int fd = -1;
  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  std::thread thread;
};

RunLock::RunLock(const fs::path& folder, const RunLockTimes& times)
    : folder_(folder), times_(times), lock_(lock_or_refuse(folder)) {
  const auto holder = read_holder(folder / kLockFile);
  if (!holder) return;
  std::string note = take_over(folder, *holder, times);
  if (note.empty()) return;
  notes_.push_back(std::move(note));
  std::error_code ignored;
  fs::remove(folder / kLockFile, ignored);  // the next look need not wait again
}

RunLock::~RunLock() = default;

void RunLock::begin() {
  if (!pulse_) pulse_ = std::make_unique<Pulse>(folder_ / kLockFile, times_.pulse);
}

}  // namespace hone::train
