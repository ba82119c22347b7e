#include "base/process/python_process.h"

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

#include "base/process/active_python.h"
#include "base/process/signal_names.h"

namespace hone::base {

namespace {

using std::chrono::milliseconds;

constexpr int kChannel = 3;           // the program's descriptor of the socket
constexpr int kFirstFree = 10;        // ours stay clear of those that the child is given
constexpr milliseconds kGlance{100};  // between looks at `stop`

// Our environment, with `more` in the place of variables of the same names.
std::vector<std::string> environment(const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::string> out;
  for (char** one = ::__environ; *one != nullptr; ++one) {
    const std::string_view entry = *one;
    const auto replaces = [&](const auto& variable) {
      return !variable.second.empty() && entry.starts_with(variable.first + "=");
    };
    if (std::ranges::none_of(more, replaces)) out.emplace_back(entry);
  }
  for (const auto& [name, value] : more) {
    if (!value.empty()) out.push_back(name + "=" + value);
  }
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

// 0, or the error of the system.
int spawn_python(const PythonProcess::Options& options, int channel, pid_t& pid) {
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (options.shows_output) {
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  } else {
    for (const int each : {STDOUT_FILENO, STDERR_FILENO})
      posix_spawn_file_actions_addopen(&actions, each, "/dev/null", O_WRONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, channel, kChannel);
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&actions, kChannel + 1);
#endif
#endif
  posix_spawnattr_t attributes{};
  posix_spawnattr_init(&attributes);
  sigset_t none{}, all{};
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);  // a Ctrl-C at the terminal is ours to answer
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const std::string python = active_python(options.python).program;
  std::vector<std::string> words = {python, "-c", std::string(options.program)};
  std::vector<std::string> variables = environment(options.variables);
  const int error = ::posix_spawnp(&pid, python.c_str(), &actions, &attributes, pointers(words).data(),
                                   pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

PythonProcess::PythonProcess(const Options& options) : most_line_(options.most_line) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    failure_ = "no socket for it: " + std::string(std::strerror(errno));
    return;
  }
  const int higher = ::fcntl(ends[1], F_DUPFD_CLOEXEC, kFirstFree);
  const int error = higher < 0 ? errno : spawn_python(options, higher, pid_);
  if (higher >= 0) ::close(higher);
  ::close(ends[1]);
  socket_ = ends[0];
  ::fcntl(socket_, F_SETFL, O_NONBLOCK);
  if (error == 0) return;
  failure_ = "'" + active_python(options.python).program + "' does not start: " + std::strerror(error);
  pid_ = -1;
  close_socket();
}

PythonProcess::~PythonProcess() {
  finish(Clock::now());
}

void PythonProcess::tell(const Json& message) {
  outgoing_ += dump_json(message) + "\n";
  flush();
}

void PythonProcess::flush() {
  while (socket_ >= 0 && !outgoing_.empty()) {
    const ssize_t count = ::send(socket_, outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // it is slow, or has ended: receive() sees that
    outgoing_.erase(0, static_cast<std::size_t>(count));
  }
}

void PythonProcess::receive() {
  std::array<char, 1U << 16U> bytes{};
  const std::size_t known = incoming_.size();  // without an end of a line
  while (socket_ >= 0) {
    const ssize_t count = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (count <= 0) {
      close_socket();
      break;
    }
    incoming_.append(bytes.data(), static_cast<std::size_t>(count));
  }
  for (std::size_t end = incoming_.find('\n', known); end != std::string::npos; end = incoming_.find('\n')) {
    Json line = Json::parse(incoming_.substr(0, end), nullptr, /*allow_exceptions=*/false);
    incoming_.erase(0, end + 1);
    if (line.is_object()) said_.push_back(std::move(line));
  }
  if (incoming_.size() > most_line_) incoming_.clear();
}

void PythonProcess::close_socket() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

std::vector<Json> PythonProcess::messages() {
  flush();
  receive();
  return std::exchange(said_, {});
}

std::vector<Json> PythonProcess::wait(Clock::time_point until, const std::atomic<bool>* stop) {
  while (true) {
    std::vector<Json> out = messages();
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (!out.empty() || socket_ < 0 || left <= milliseconds::zero() || (stop != nullptr && stop->load()))
      return out;
    pollfd watched{socket_, static_cast<short>(outgoing_.empty() ? POLLIN : POLLIN | POLLOUT), 0};
    ::poll(&watched, 1, static_cast<int>(std::min(left, kGlance).count()));
  }
}

bool PythonProcess::finish(Clock::time_point until) {
  if (pid_ <= 0) return false;
  siginfo_t info{};
  const auto ended = [&] {
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
  };
  while (!ended() && Clock::now() < until) std::this_thread::sleep_for(milliseconds(5));
  const bool by_itself = ended();
  receive();
  // Before it is reaped, so that the number cannot belong to another group yet.
  ::kill(-pid_, SIGKILL);
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
  }
  pid_ = -1;
  close_socket();
  if (by_itself && info.si_code == CLD_EXITED && info.si_status == 0) return true;
  failure_ = !by_itself                   ? "did not end in time"
             : info.si_code == CLD_EXITED ? "ended with code " + std::to_string(info.si_status)
                                          : "was killed by " + signal_text(info.si_status);
  return false;
}

}  // namespace hone::base
