#include "doctor/probes/machine/kernel_child.h"

#include "base/stopwatch.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>

namespace hone::doctor {

namespace {

using base::Clock;

// Both ends of the child's standard input and output: a socket, so that a child that is gone raises no
// SIGPIPE here.
struct Ends {
  int ours = -1, theirs = -1;
};

Ends make_ends() {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) return {};
  // Clear of the descriptors that the child is given: dup2 onto itself would leave it to be closed.
  const int theirs = ::fcntl(pair[1], F_DUPFD_CLOEXEC, 10);
  ::close(pair[1]);
  return {pair[0], theirs};
}

pid_t spawn(const base::fs::path& program, const std::vector<std::string>& arguments, int socket) {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, socket, 0);
  posix_spawn_file_actions_adddup2(&actions, socket, 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  sigset_t none{};
  sigset_t all{};
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> words = {program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), ::__environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error == 0 ? pid : -1;
}

void send_all(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) break;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  ::shutdown(socket, SHUT_WR);
}

// False: it was silent for too long.
bool listen(int socket, std::chrono::milliseconds patience,
            const std::function<void(const std::string&)>& on_line) {
  std::string pending;
  auto deadline = Clock::now() + patience;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    pollfd watched{socket, POLLIN, 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(left.count()));
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    std::array<char, 4096> bytes{};
    const ssize_t count = ::recv(socket, bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    pending.append(bytes.data(), static_cast<std::size_t>(count));
    for (std::size_t end = 0; (end = pending.find('\n')) != std::string::npos; pending.erase(0, end + 1)) {
      on_line(pending.substr(0, end));
      deadline = Clock::now() + patience;
    }
  }
}

}  // namespace

ChildEnd run_child(const base::fs::path& program, const std::vector<std::string>& arguments,
                   std::string_view input, std::chrono::milliseconds patience,
                   const std::function<void(const std::string&)>& on_line) {
  const Ends ends = make_ends();
  const pid_t pid = ends.theirs < 0 ? -1 : spawn(program, arguments, ends.theirs);
  if (ends.theirs >= 0) ::close(ends.theirs);
  if (pid < 0) {
    if (ends.ours >= 0) ::close(ends.ours);
    return {.started = false};
  }
  send_all(ends.ours, input);
  ChildEnd out;
  out.late = !listen(ends.ours, patience, on_line);
  int status = 0;
  // It has closed its output, or was late; one that still does not end is late too.
  const auto deadline = Clock::now() + (out.late ? std::chrono::milliseconds(0) : patience);
  pid_t ended = 0;
  while ((ended = ::waitpid(pid, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
    if (Clock::now() >= deadline) {
      out.late = true;
      ::kill(-pid, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::close(ends.ours);
  if (WIFSIGNALED(status)) out.signal = WTERMSIG(status);
  if (WIFEXITED(status)) out.status = WEXITSTATUS(status);
  return out;
}

}  // namespace hone::doctor
