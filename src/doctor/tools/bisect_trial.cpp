#include "doctor/tools/bisect_trial.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/process/signal_names.h"
#include "base/stopwatch.h"
#include "base/strings/lines.h"
#include "base/strings/pattern.h"

namespace hone::doctor {

namespace fs = base::fs;

namespace {

using base::Clock;
using base::seconds_since;

// Not fork: this process may hold a model. Signals as a shell would set them; the environment is the user's,
// unread by us.
pid_t spawn(const std::vector<std::string>& words, const fs::path& printed) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, printed.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0644);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  sigset_t defaults, none;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (const int one : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) sigaddset(&defaults, one);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = -1;
  const int code = posix_spawn(&child, argv[0], &files, &attributes, argv.data(), ::__environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (code == 0) return child;
  throw base::UserError({.where = words[0],
                         .expected = "a child process",
                         .found = std::strerror(code),
                         .cause = "the limit on processes or on memory is reached",
                         .fix = "close other programs, or raise `ulimit -u`"});
}

enum class Stopped { kNo, kLate, kAsked };

// The child's wait status. Its whole group dies with it: a reward's worker must not live on.
int await(pid_t child, const TrialOptions& options, Clock::time_point start, Stopped& stopped) {
  int status = 0;
  for (;;) {
    const pid_t ended = waitpid(child, &status, stopped == Stopped::kNo ? WNOHANG : 0);
    if (ended == child) break;
    base::require(ended == 0 || errno == EINTR, "bisect", "a child to wait for");
    if (options.stop != nullptr && options.stop->load()) stopped = Stopped::kAsked;
    if (stopped == Stopped::kNo && seconds_since(start) > options.timeout) stopped = Stopped::kLate;
    if (stopped != Stopped::kNo) {
      kill(-child, SIGKILL);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  kill(-child, SIGKILL);
  return status;
}

std::string describe_signal(int number) {
  const std::string_view name = base::signal_name(number);
  return "signal " + std::to_string(number) + (name.empty() ? "" : " (" + std::string(name) + ")");
}

// The first class of fault that a text names: "GRAD-07"; empty: none.
std::string class_code(const std::string& text) {
  static const base::Pattern code(R"(\b(?:GRAD|NUM|DATA|PREF|RL|TOOL|DIST|CKPT|ENV|MEM)-[0-9]{2}\b)");
  const std::u32string points = base::to_code_points(text.substr(0, 100'000));  // far from kMaxSteps
  const auto found = code.search(points);
  return found ? base::to_utf8(found->text(points)) : "";
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin);
}

// The doctor's first FAIL, else hone's error with its finding, else the last line.
struct Said {
  std::string code, message;
};
Said child_message(const std::string& printed) {
  const std::vector<std::string> lines = base::lines_of(printed);
  Said out;
  for (const std::string& line : lines) {
    if (line.find("FAIL") == std::string::npos) continue;
    if (const std::string code = class_code(line); !code.empty())
      return {.code = code, .message = trimmed(line)};
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].starts_with("hone: ")) continue;
    out.message = lines[i].substr(6);
    for (std::size_t j = i + 1; j < lines.size() && lines[j].starts_with("  "); ++j) {
      if (const std::string more = trimmed(lines[j]); more.starts_with("found:")) out.message += "; " + more;
      if (out.code.empty()) out.code = class_code(lines[j]);
    }
    if (out.code.empty()) out.code = class_code(out.message);
    return out;
  }
  if (!lines.empty()) out.message = trimmed(lines.back());
  return out;
}

// A step whose loss is not a number, as metrics.jsonl holds it: null, or a word.
std::optional<std::string> loss_not_finite(const fs::path& metrics) {
  if (!fs::exists(metrics)) return std::nullopt;
  for (const std::string& line : base::lines_of(base::read_text(metrics))) {
    const base::Json json = base::Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("loss") && !json["loss"].is_number()) return line.substr(0, 200);
  }
  return std::nullopt;
}

}  // namespace

Trial run_trial(const std::string& yaml, const TrialOptions& options) {
  const fs::path config = options.folder / "run.yaml", out = options.folder / "out",
                 printed = options.folder / "printed.txt";
  base::write_file_atomic(config, yaml);
  const auto start = Clock::now();
  const pid_t child = spawn({options.program.string(), options.method, "--config", config.string(),
                             "--max_steps", std::to_string(options.steps), "--output_dir", out.string(),
                             "--report_to", "none", "--push_to_hub", "false"},
                            printed);
  Stopped stopped = Stopped::kNo;
  const int status = await(child, options, start, stopped);
  const Said said = child_message(base::read_text(printed));
  Trial trial{.outcome = Outcome::kFails, .message = said.message, .seconds = seconds_since(start)};
  if (stopped == Stopped::kAsked) {
    trial.kind = "stopped";
    trial.outcome = Outcome::kUnresolved;
  } else if (stopped == Stopped::kLate) {
    trial.kind = "time-out";
  } else if (WIFSIGNALED(status)) {
    trial.kind = describe_signal(WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    trial.kind = said.code.empty() ? "exit " + std::to_string(WEXITSTATUS(status)) : said.code;
  } else if (const auto line = loss_not_finite(out / "metrics.jsonl")) {
    trial.kind = "loss not finite";
    trial.message = *line;
  } else {
    trial = {.outcome = Outcome::kPasses, .kind = {}, .message = {}, .seconds = trial.seconds};
  }
  return trial;
}

}  // namespace hone::doctor
