#include "commands/hub_download.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <iostream>
#include <string>

#include "base/error.h"
#include "base/printable.h"
#include "commands/python/hub_download_text.h"

extern char** environ;

namespace hone::commands {

namespace {

constexpr std::size_t kMostOutput = 1 << 16;
constexpr const char* kPython = "python3";

struct Ended {
  int code = 0;  // its exit code; 127 when it could not be started
  std::string output;
};

// `words` as a program; its stdout is what is returned, stderr is ours.
Ended run(std::vector<std::string> words) {
  std::array<int, 2> ends{};
  base::require(pipe(ends.data()) == 0, "download_from_hub", "a pipe");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  pid_t child = -1;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Ended out;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0;
       failed == 0 && ((n = read(ends[0], buffer.data(), buffer.size())) > 0 || (n < 0 && errno == EINTR));) {
    if (n > 0 && out.output.size() < kMostOutput)
      out.output.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  if (failed != 0) return {.code = 127};
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return out;
}

// The script's own sentence: the last line that begins with "hone: ".
std::string said(const std::string& output) {
  const std::size_t at = output.rfind("hone: ");
  if (at == std::string::npos || (at > 0 && output[at - 1] != '\n')) return "";
  return output.substr(at + 6, output.find('\n', at) - at - 6);
}

[[noreturn]] void refuse(const config::HubRequest& request, const std::string& found,
                         const std::string& cause) {
  throw base::UserError({.where = "option " + request.option,
                         .expected = request.id + " on this machine, or from the hub",
                         .found = found,
                         .cause = cause,
                         .fix = config::how_to_fetch(request)});
}

}  // namespace

void download_from_hub(const std::vector<config::HubRequest>& requests) {
  for (const config::HubRequest& request : requests) {
    if (config::hub_is_offline()) {
      refuse(request, "it is neither a folder here nor in " + config::hub_cache_folder().string(),
             "HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set, so nothing is downloaded");
    }
    std::cerr << "download  " << request.id << " from the hub into " << config::hub_cache_folder().string()
              << ", by " << kPython << std::endl;
    const bool model = request.kind == config::HubKind::kModel;
    const Ended ended = run({kPython, "-c", std::string(kHubDownloadPython), model ? "model" : "dataset",
                             request.id, request.revision.empty() ? "main" : request.revision});
    if (ended.code == 127)
      refuse(request, std::string("no Python to download it with: '") + kPython + "' does not start",
             "hone downloads by the user's Python");
    if (ended.code != 0) {
      const std::string sentence = base::printable(said(ended.output));
      refuse(request, sentence.empty() ? "Python ended with code " + std::to_string(ended.code) : sentence,
             "");
    }
    if (!config::hub_snapshot(request.kind, request.id, request.revision)) {
      refuse(request, "the download is not whole: " + (config::hub_cache_folder() / "...").string(),
             "a model needs config.json and its safetensors");
    }
  }
}

}  // namespace hone::commands
