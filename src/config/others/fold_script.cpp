#include "config/others/fold_script.h"

#include <chrono>

#include "base/error.h"
#include "base/files/file.h"
#include "config/others/python/fold_text.h"
#include "config/reading/yaml_value.h"
#include "python/worker_process.h"

namespace hone::config {
namespace {

using base::Json;
using base::UserError;
using Outcome = python::WorkerProcess::Outcome;

constexpr const char* kReader = "script reader";
constexpr std::chrono::seconds kMostTime{20};  // of all rounds; a round ends itself after 8
constexpr int kMostRounds = 6;                 // each reads the files that the one before asked for
constexpr std::uintmax_t kMostFileBytes = std::uintmax_t{4} << 20;

const python::Program& reader_program() {
  static const python::Program program = {
      .who = kReader,
      .what_for = "to read a script",
      .text = std::string(python::worker_base()) + std::string(kValuesPython) + std::string(kChangesPython) +
              std::string(kFoldingPython) + std::string(kExpressionsPython) + std::string(kParsersPython) +
              std::string(kCallsPython) + std::string(kScriptPython)};
  return program;
}

// The value of a YAML or JSON file, or {"why"}.
Json value_of_file(const std::string& name, const std::string& script) {
  namespace fs = base::fs;
  const auto why = [](const std::string& text) { return Json::object({{"why", text}}); };
  const bool is_data = name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json");
  if (!is_data) return why("it comes from " + name + ", which is neither YAML nor JSON");
  for (const fs::path& path : {fs::path(script).parent_path() / name, fs::path(name)}) {
    std::error_code none;
    if (!fs::is_regular_file(path, none)) continue;
    if (fs::file_size(path, none) > kMostFileBytes) return why("it comes from " + name + ", a large file");
    try {
      return yaml_value(base::read_text(path.string()), path.string());
    } catch (const UserError& error) {
      return why("it comes from " + name + ", which is not read: " + error.text().found);
    }
  }
  return why("it comes from " + name + ", which is not here");
}

Json ask(python::WorkerProcess& process, const Json& question, const std::string& path,
         base::Clock::time_point deadline) {
  process.post(base::dump_json(question));
  std::string frame;
  const Outcome outcome = process.exchange(deadline, frame);
  if (outcome != Outcome::kAnswered) {
    const std::string said = python::last_line(process.output_tail());
    throw UserError({.where = path,
                     .expected = "a script that Python (3.8 or later) parses in 20 seconds",
                     .found = outcome == Outcome::kLate ? "no answer within that time"
                                                        : "its Python " + process.how_it_ended() +
                                                              (said.empty() ? "" : ": " + said),
                     .cause = "a script that is nested very deeply, or no Python interpreter",
                     .fix = "write its values into a YAML file of hone's, or activate another Python"});
  }
  Json reply = python::parse_reply(frame, kReader);
  for (const char* name : {"broken", "fault"}) {
    if (!reply.is_object() || !reply.contains(name)) continue;
    const std::string at = reply.value("at", "");
    throw UserError(
        {.where = at.empty() ? path : path + ":" + at,
         .expected = "Python",
         .found = reply[name].is_string() ? reply[name].get<std::string>() : base::dump_json(reply[name]),
         .fix = "correct the file: it is read only as far as Python parses it"});
  }
  return reply;
}

}  // namespace

Json fold_script(const std::string& text, const std::string& path, const std::vector<std::string>& words) {
  python::WorkerProcess process("", reader_program());
  const auto deadline = base::Clock::now() + kMostTime;
  Json files = Json::object();
  for (int round = 1;; ++round) {
    Json reply = ask(process,
                     Json::object({{"do", "fold"},
                                   {"text", text},
                                   {"notebook", path.ends_with(".ipynb")},
                                   {"files", files},
                                   {"words", words}}),
                     path, deadline);
    const Json& needs = python::reply_field(reply, "needs", kReader);
    if (!needs.is_array() || needs.empty() || round == kMostRounds) return reply;
    for (const Json& one : needs) {
      if (one.is_string()) files[one.get<std::string>()] = value_of_file(one.get<std::string>(), path);
    }
  }
}

}  // namespace hone::config
