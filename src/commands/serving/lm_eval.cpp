#include "commands/serving/lm_eval.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/process/active_python.h"
#include "commands/python/lm_eval_text.h"

extern char** environ;

namespace hone::commands {

namespace fs = base::fs;

namespace {

constexpr const char* kThisMachine = "127.0.0.1";
constexpr const char* kThisMachineToo = ",127.0.0.1";
constexpr const char* kInstall = "pip install 'lm-eval[api]'";

// The child, or nothing with errno. `out`: the descriptor of its stdout.
std::optional<pid_t> started(std::vector<std::string> words, int out) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  pid_t child = -1;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  errno = failed;
  return failed == 0 ? std::optional(child) : std::nullopt;
}

// Its exit code; 128 and more: a signal ended it.
int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int wait_for_end(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return exit_code_of(status);
}

// Runs `words`: the text that they print, and the exit code. Nothing: they do not start.
std::optional<std::pair<int, std::string>> said_by(const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  base::require(pipe2(ends.data(), O_CLOEXEC) == 0, "find_lm_eval", "a pipe");
  const std::optional<pid_t> child = started(words, ends[1]);
  close(ends[1]);
  std::string out;
  std::array<char, 256> bytes{};
  for (ssize_t n = 0;
       child && ((n = ::read(ends[0], bytes.data(), bytes.size())) > 0 || (n < 0 && errno == EINTR));)
    if (n > 0 && out.size() < 4096) out.append(bytes.data(), static_cast<std::size_t>(n));
  close(ends[0]);
  if (!child) return {};
  return std::pair(wait_for_end(*child), out);
}

std::set<fs::path> results_below(const fs::path& folder) {
  std::set<fs::path> out;
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("results_") && name.ends_with(".json")) out.insert(entry.path());
  }
  return out;
}

// The names of a variable with this machine's; "*" alone names all.
std::string with_this_machine(const std::string& names) {
  if (names == "*" || names == kThisMachine || names.ends_with(kThisMachineToo)) return names;
  return names.empty() ? kThisMachine : names + kThisMachineToo;
}

}  // namespace

void ask_no_proxy_of_this_machine() {
  const char* const capital = std::getenv("NO_PROXY");
  const char* const small = std::getenv("no_proxy");
  const std::string first = capital != nullptr ? capital : small != nullptr ? small : "";
  const std::string second = small != nullptr ? small : first;
  setenv("NO_PROXY", with_this_machine(first).c_str(), 1);
  setenv("no_proxy", with_this_machine(second).c_str(), 1);
}

LmEval find_lm_eval(const std::string& python) {
  const base::ActivePython active = base::active_python(python);
  const auto said = said_by({active.program, "-c",
                             "from importlib.metadata import version; import importlib.util as u; "
                             "print(version('lm_eval') if u.find_spec('lm_eval') else '')"});
  std::string version = said ? said->second : "";
  while (!version.empty() && version.back() == '\n') version.pop_back();
  if (said && said->first == 0 && !version.empty()) return {.python = active.program, .version = version};
  throw base::UserError({.where = "hone eval",
                         .expected = "a Python with the harness lm-eval",
                         .found = active.program + (said ? ", which lacks it" : ", which does not start"),
                         .cause = "the Python comes from " + active.source,
                         .fix = active.program + " -m " + kInstall + ", or name another with --python"});
}

base::Json run_lm_eval(const LmEval& harness, const std::vector<std::string>& words, const fs::path& folder,
                       const std::atomic<int>& stop) {
  std::vector<std::string> all = {harness.python, "-c", std::string(kLmEvalPython), "--output_path",
                                  folder.string()};
  all.insert(all.end(), words.begin(), words.end());
  setenv("PYTHONSAFEPATH", "1", 0);  // no module of the working folder is taken for one of the library's
  ask_no_proxy_of_this_machine();
  const std::set<fs::path> before = results_below(folder);
  const std::optional<pid_t> child = started(all, STDERR_FILENO);
  int code = 127;
  if (child) {
    int status = 0;
    bool was_told = false;
    while (waitpid(*child, &status, WNOHANG) == 0) {
      if (stop != 0 && !was_told) kill(*child, SIGTERM);
      was_told = stop != 0;
      usleep(100'000);
    }
    code = exit_code_of(status);
  }
  fs::path newest;
  for (const fs::path& one : results_below(folder))
    if (!before.contains(one)) newest = one;
  if (code == 0 && !newest.empty()) return base::parse_json(base::read_text(newest), newest.string());
  throw base::UserError({.where = "lm-eval " + harness.version,
                         .expected = "to evaluate the model",
                         .found = stop != 0 ? "it was stopped" : "it ended with code " + std::to_string(code),
                         .cause = "what it printed says why",
                         .fix = "lm-eval ls tasks lists the names that --tasks takes"});
}

}  // namespace hone::commands
