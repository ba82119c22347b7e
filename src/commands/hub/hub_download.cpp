#include "commands/hub/hub_download.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <iostream>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/process/active_python.h"
#include "base/strings/printable.h"
#include "commands/python/hub_download_text.h"

extern char** environ;

namespace hone::commands {

namespace {

constexpr std::size_t kMostOutput = 1 << 16;

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
  for (ssize_t n = 0; failed == 0 && ((n = ::read(ends[0], buffer.data(), buffer.size())) > 0 ||
                                      (n < 0 && errno == EINTR));) {
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

std::vector<std::string> words_of(const config::HubRequest& request, const std::string& python) {
  const bool model = request.kind == config::HubKind::kModel;
  std::vector<std::string> words = {python,
                                    "-c",
                                    std::string(kHubDownloadPython),
                                    model ? "model" : "dataset",
                                    request.id,
                                    request.revision.empty() ? "main" : request.revision};
  if (!model) {
    words.push_back(base::dump_json({{"config", request.part.config},
                                     {"data_dir", request.part.data_dir},
                                     {"data_files", request.part.data_files}}));
  }
  return words;
}

}  // namespace

void require_downloaded(const std::vector<config::HubRequest>& still_missing) {
  if (still_missing.empty()) return;
  const config::HubRequest& request = still_missing.front();
  throw base::UserError(
      {.where = "option " + request.option,
       .expected = request.id + " with what the run reads of it",
       .found = "downloaded, and still " + config::not_here(request),
       .cause = "",
       .fix = "correct the split, dataset_config or data_files; https://huggingface.co/datasets/" +
              request.id + " shows what is there"});
}

void download_from_hub(const std::vector<config::HubRequest>& requests, const std::string& named) {
  const std::string python = base::active_python(named).program;
  for (const config::HubRequest& request : requests) {
    if (config::hub_is_offline()) {
      refuse(request, config::not_here(request),
             "HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set, so nothing is downloaded");
    }
    std::cerr << "download  " << request.id << " from the hub into " << config::hub_cache_folder().string()
              << ", by " << base::printable(python) << std::endl;
    const Ended ended = run(words_of(request, python));
    if (ended.code == 127)
      refuse(request, "no Python to download it with: '" + python + "' does not start",
             "hone downloads by the user's Python");
    if (ended.code != 0) {
      const std::string sentence = base::printable(said(ended.output));
      refuse(request, sentence.empty() ? "Python ended with code " + std::to_string(ended.code) : sentence,
             config::not_here(request));
    }
    if (!config::hub_snapshot(request.kind, request.id, request.revision)) {
      refuse(request, "the download is not whole: " + (config::hub_cache_folder() / "...").string(),
             request.kind == config::HubKind::kModel ? "a model needs config.json and its safetensors"
                                                     : "the snapshot is an empty folder");
    }
  }
}

}  // namespace hone::commands
