#include "python/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/process/active_python.h"
#include "base/process/signal_names.h"
#include "base/process/stop_request.h"

namespace hone::python {

namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxPrinted = std::size_t{16} << 10;
constexpr std::size_t kMaxUnread = std::size_t{1} << 20;
constexpr milliseconds kGlance{100};   // between looks at a worker that is silent
constexpr milliseconds kEndAll{2500};  // for the watcher, which takes milliseconds
constexpr int kFirstFree = 10;         // our ends stay clear of the descriptors that the child is given

[[noreturn]] void cannot_start(const base::ActivePython& python, const Program& program, int error) {
  const bool missing = error == ENOENT;
  throw base::UserError(
      {.where = program.who,
       .expected = "a Python interpreter " + program.what_for,
       .found = "'" + python.program + "': " + std::string(std::strerror(error)),
       .cause = missing ? "no such program, on PATH or at this path" : "the system cannot start it",
       .fix = missing ? "name your interpreter with --python, or activate its environment" : ""});
}

// A descriptor that closes itself, never one of 0..9.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  void move_up() {
    const int higher = ::fcntl(fd_, F_DUPFD_CLOEXEC, kFirstFree);
    if (higher < 0) return;
    ::close(fd_);
    fd_ = higher;
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

struct SpawnSetup {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

// Not fork: a copy of a trainer's page tables is slow, and posix_spawn needs none.
pid_t spawn(const base::ActivePython& python, const Program& program, int socket, int life, int prints) {
  SpawnSetup setup;
  posix_spawn_file_actions_addopen(&setup.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&setup.actions, prints, 1);
  posix_spawn_file_actions_adddup2(&setup.actions, prints, 2);
  posix_spawn_file_actions_adddup2(&setup.actions, socket, kWorkerDescriptor);
  posix_spawn_file_actions_adddup2(&setup.actions, life, kWatcherDescriptor);
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&setup.actions, kWatcherDescriptor + 1);
#endif
#endif
  sigset_t none{};
  sigset_t all{};
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&setup.attributes, &none);
  posix_spawnattr_setsigdefault(&setup.attributes, &all);
  posix_spawnattr_setpgroup(&setup.attributes, 0);
  posix_spawnattr_setflags(&setup.attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string name = python.program;
  std::string option = "-c";
  std::string text = bootstrap(program);
  const std::array<char*, 4> arguments{name.data(), option.data(), text.data(), nullptr};
  pid_t pid = -1;
  // The user's Python gets the user's environment, unread by us.
  const int error = ::posix_spawnp(&pid, python.program.c_str(), &setup.actions, &setup.attributes,
                                   arguments.data(), ::__environ);
  if (error != 0) cannot_start(python, program, error);
  return pid;
}

std::string name_of_end(int code, int status) {
  if (code == CLD_EXITED) return "ended with status " + std::to_string(status);
  return "was killed by " + base::signal_text(status) +
         (status == SIGKILL ? " (sent by a user or program, or out of memory)" : "");
}

}  // namespace

WorkerProcess::WorkerProcess(const std::string& named, const Program& program)
    : who_(program.who), incoming_(program.who) {
  const base::ActivePython python = base::active_python(named);
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    cannot_start(python, program, errno);
  Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    cannot_start(python, program, errno);
  Descriptor life(ends[0]);
  Descriptor watched(ends[1]);
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) cannot_start(python, program, errno);
  Descriptor prints(ends[0]);
  Descriptor prints_in(ends[1]);
  theirs.move_up();
  watched.move_up();
  prints_in.move_up();
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(prints.get(), F_SETFL, O_NONBLOCK);
  pid_ = spawn(python, program, theirs.get(), watched.get(), prints_in.get());
  socket_ = ours.release();
  life_ = life.release();
  prints_ = prints.release();
  outgoing_ = program.text;
}

WorkerProcess::~WorkerProcess() {
  kill_and_reap();
  ::close(socket_);
  ::close(life_);
  ::close(prints_);
}

void WorkerProcess::post(std::string_view payload) {
  outgoing_ += to_frame(payload, who_);
}

WorkerProcess::Outcome WorkerProcess::exchange(Clock::time_point deadline, std::string& reply) {
  while (true) {
    if (std::optional<std::string> frame = incoming_.next()) {
      reply = std::move(*frame);
      return Outcome::kAnswered;
    }
    if (!socket_open_) break;
    if (base::stop_overdue()) return Outcome::kLate;
    const auto left =
        std::max(milliseconds::zero(), std::chrono::ceil<milliseconds>(deadline - Clock::now()));
    const bool more = sent_ < outgoing_.size();
    std::array<pollfd, 2> watched{pollfd{socket_, static_cast<short>(more ? POLLIN | POLLOUT : POLLIN), 0},
                                  pollfd{prints_open_ ? prints_ : -1, POLLIN, 0}};
    const int ready =
        ::poll(watched.data(), watched.size(), static_cast<int>(std::min(left, kGlance).count()));
    if (watched[1].revents != 0) take_prints();
    if ((watched[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) take_answer();
    if ((watched[0].revents & POLLOUT) != 0 && !send_some()) take_answer();
    // A child of the worker may hold its end of the socket open.
    if (ready == 0 && has_ended()) {
      take_answer();
      socket_open_ = false;
    } else if (left == milliseconds::zero() && (watched[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0) {
      return Outcome::kLate;
    }
  }
  // It closed the socket and is about to end; what it says in ending is worth a moment.
  const auto moment = Clock::now() + milliseconds(500);
  wait_for_end(moment);
  kill_and_reap();
  take_prints();
  return Outcome::kGone;
}

void WorkerProcess::push() {
  for (std::size_t before = sent_ + 1; socket_open_ && sent_ < outgoing_.size() && before != sent_;) {
    before = sent_;
    if (!send_some()) return;  // exchange() finds out why
  }
}

bool WorkerProcess::send_some() {
  const ssize_t count = ::send(socket_, outgoing_.data() + sent_, outgoing_.size() - sent_, MSG_NOSIGNAL);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  sent_ += static_cast<std::size_t>(count);
  if (sent_ == outgoing_.size()) {
    outgoing_ = {};
    sent_ = 0;
  }
  return true;
}

void WorkerProcess::take_answer() {
  std::array<char, 1U << 16U> bytes;
  const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
  if (count > 0) {
    incoming_.feed({bytes.data(), static_cast<std::size_t>(count)});
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    socket_open_ = false;
  }
}

void WorkerProcess::take_prints() {
  std::array<char, 1U << 16U> bytes;
  const ssize_t count = ::read(prints_, bytes.data(), bytes.size());
  if (count > 0) {
    printed_count_ += static_cast<std::size_t>(count);
    const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
    unread_ += text.substr(0, kMaxUnread - std::min(unread_.size(), kMaxUnread));
    printed_ += text;
    if (printed_.size() > kMaxPrinted) printed_.erase(0, printed_.size() - kMaxPrinted);
  } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
    prints_open_ = false;
  }
}

std::string WorkerProcess::new_output() {
  for (std::size_t before = std::string::npos; prints_open_ && before != printed_count_;) {
    before = printed_count_;
    take_prints();
  }
  return std::exchange(unread_, {});
}

std::string WorkerProcess::ask_where() {
  take_prints();
  printed_.clear();  // what comes now is the answer
  if (pid_ > 0) ::kill(-pid_, SIGUSR2);
  const auto deadline = Clock::now() + milliseconds(300);
  std::size_t seen = 0;
  while (prints_open_ && Clock::now() < deadline) {
    pollfd watched{prints_, POLLIN, 0};
    if (::poll(&watched, 1, 50) == 0 && seen > 0) break;
    take_prints();
    seen = printed_.size();
  }
  return printed_;
}

bool WorkerProcess::has_ended() const {
  if (pid_ <= 0) return true;
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0;
}

void WorkerProcess::hang_up() {
  ::shutdown(socket_, SHUT_RDWR);
}

void WorkerProcess::wait_for_end(Clock::time_point deadline) {
  while (!has_ended() && Clock::now() < deadline) {
    if (prints_open_) take_prints();  // it may wait for room to print
    std::this_thread::sleep_for(milliseconds(5));
  }
}

void WorkerProcess::kill_and_reap() {
  if (pid_ <= 0) return;
  const bool by_itself = has_ended();
  if (!by_itself) {
    ::send(life_, "k", 1, MSG_NOSIGNAL);  // the watcher ends all that has left the group too
    wait_for_end(Clock::now() + kEndAll);
  }
  // Before it is reaped, so that the number cannot belong to another group yet.
  ::kill(-pid_, SIGKILL);
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
  }
  ended_ = !by_itself         ? "closed its connection"
           : info.si_pid == 0 ? "ended"
                              : name_of_end(info.si_code, info.si_status);
  pid_ = -1;
}

}  // namespace hone::python
