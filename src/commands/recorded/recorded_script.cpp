#include "commands/recorded/recorded_script.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/files/file.h"
#include "base/json.h"
#include "base/process/active_python.h"
#include "base/strings/printable.h"
#include "commands/process/program_paths.h"
#include "commands/python/recorded_text.h"
#include "config/method_of.h"

namespace hone::commands {
namespace {

namespace fs = base::fs;
using base::Json;
using base::printable;
using base::UserError;
using Outcome = python::WorkerProcess::Outcome;

constexpr const char* kRecorder = "script recorder";
constexpr std::size_t kMostSaid = 300;

const python::Program& recorder_program() {
  static const python::Program program = {
      .who = kRecorder,
      .what_for = "to run a script",
      .text = std::string(python::worker_base()) + std::string(kRecordedPython)};
  return program;
}

// The folder that has the package hone: of the wheel, whose program is hone/bin/hone, or of the source tree, whose
// program is build/hone. Empty: Python finds its own.
fs::path package_folder() {
  const fs::path program = own_program();
  const fs::path wheel = program.parent_path().parent_path();
  std::error_code none;
  if (program.parent_path().filename() == "bin" && fs::is_directory(wheel / "recorded", none))
    return wheel.parent_path();
  for (fs::path above = program.parent_path(); above.has_relative_path(); above = above.parent_path()) {
    if (fs::is_directory(above / "python" / "hone" / "recorded", none)) return above / "python";
  }
  return {};
}

bool is_packed(const fs::path& package) {
  return !package.empty() && package.filename() != "python";
}

void set_variable(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);
}

// What the child and, after it, the workers of the examination read: this program, hone's package, no hub.
void set_environment(const config::DoctorPlan& asked, const fs::path& package) {
  if (!is_packed(package)) set_variable("HONE_PROGRAM", own_program().string());
  if (!package.empty()) {
    const char* const before = std::getenv("PYTHONPATH");
    const std::string first = before == nullptr || *before == '\0' ? "" : std::string(before) + ":";
    set_variable("PYTHONPATH", first + package.string());
  }
  if (asked.online) return;
  for (const char* name : {"HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"})
    set_variable(name, "1");
}

void require_script(const config::DoctorPlan& asked) {
  if (asked.config.ends_with(".py") || asked.config.ends_with(".ipynb")) {
    const std::string beside = asked.fix                     ? "--fix"
                               : !asked.write.empty()        ? "--write"
                               : !asked.data.empty()         ? "--data"
                               : !asked.dataset_info.empty() ? "--dataset_info"
                                                             : "";
    if (beside.empty()) return;
    throw UserError({.where = "--run",
                     .expected = "options and rows that the script itself makes",
                     .found = beside,
                     .fix = "leave it out; --keep FOLDER keeps hone's own file of the run and its rows"});
  }
  throw UserError({.where = "--run",
                   .expected = "a script of Python or a notebook",
                   .found = asked.config.empty() ? "no file" : asked.config,
                   .cause = "a YAML file is read, and has nothing to run",
                   .fix = "leave --run out"});
}

std::string last_words(const std::string& printed) {
  const std::size_t end = printed.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "";
  const std::size_t begin = printed.rfind('\n', end);
  return printed.substr(begin == std::string::npos ? 0 : begin + 1,
                        std::min(kMostSaid, end - (begin + 1) + 1));
}

// The line of faulthandler's text that is in the script: "line 12", "cell 3 line 2".
std::string line_in_dump(const std::string& dump, const std::string& script) {
  const std::size_t at = dump.find("File \"" + script);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + 6 + script.size();
  std::string line =
      dump.substr(begin, dump.find(" in ", begin) - begin);  // `", line 12`, ` cell 3", line 2`
  std::erase_if(line, [](char letter) { return letter == '"' || letter == ','; });
  return line.substr(std::min(line.size(), line.find_first_not_of(' ')));
}

[[noreturn]] void late(const config::DoctorPlan& asked, python::WorkerProcess& process) {
  const std::string line =
      line_in_dump(process.ask_where(), fs::absolute(asked.config).lexically_normal().string());
  std::ostringstream most;
  most << "a script that reaches train() within " << asked.run_limit << " seconds";
  throw UserError({.where = asked.config,
                   .expected = most.str(),
                   .found = "it still runs" + (line.empty() ? "" : ", at " + line),
                   .cause = "a loop that does not end, or much to prepare",
                   .fix = "--run_limit gives it more seconds; or let it prepare fewer rows"});
}

[[noreturn]] void stopped(const Json& parts, const std::string& printed) {
  const auto part = [&](const char* name) { return parts.value(name, ""); };
  std::string cause = part("cause");
  const std::string said = last_words(printed);
  const bool silent = part("found").find("ended before train()") == std::string::npos || said.empty();
  if (!silent) cause += (cause.empty() ? "" : "; ") + ("its last words: " + said);
  throw UserError({.where = part("where"),
                   .expected = part("expected"),
                   .found = part("found"),
                   .cause = cause,
                   .fix = part("fix")});
}

Json run_script(const config::DoctorPlan& asked, const fs::path& folder, const fs::path& package,
                python::WorkerProcess& process) {
  Json packages = Json::array();
  if (!package.empty()) packages.push_back(package.string());
  process.post(base::dump_json(Json::object({{"do", "run"},
                                             {"script", asked.config},
                                             {"text", base::read_text(asked.config)},
                                             {"folder", folder.string()},
                                             {"arguments", asked.script_arguments},
                                             {"online", asked.online},
                                             {"packages", packages}})));
  const auto most = std::chrono::milliseconds(std::llround(asked.run_limit * 1000));
  std::string frame;
  const Outcome outcome = process.exchange(base::Clock::now() + most, frame);
  if (outcome == Outcome::kLate) late(asked, process);
  if (outcome == Outcome::kGone) {
    const std::string said = last_words(process.output_tail());
    throw UserError({.where = asked.config,
                     .expected = "a script that reaches its trainer's train()",
                     .found = "its Python " + process.how_it_ended() + " before that",
                     .cause = said.empty() ? "" : "its last words: " + said,
                     .fix = "run the script without hone to see where it ends"});
  }
  Json reply = python::parse_reply(frame, kRecorder);
  if (reply.contains("fault")) {
    const Json& fault = reply["fault"];
    throw UserError({.where = asked.config,
                     .expected = fault.value("expected", ""),
                     .found = fault.value("found", ""),
                     .cause = fault.value("cause", ""),
                     .fix = fault.value("fix", "")});
  }
  return reply;
}

void tell_notes(std::ostream& out, const Json& notes) {
  for (const Json& one : notes) {
    const auto where = one.at(0).get<std::string>();
    out << printable("note      " + one.at(1).get<std::string>() + (where.empty() ? "" : " (" + where + ")") +
                     ": " + one.at(2).get<std::string>())
        << '\n';
  }
}

void make_empty(const fs::path& folder) {
  std::error_code none, failed;
  if (!fs::exists(folder, none)) fs::create_directories(folder, failed);
  if (failed) {
    throw UserError({.where = "--keep",
                     .expected = "a folder that can be made",
                     .found = folder.string() + ": " + failed.message(),
                     .fix = "name another one"});
  }
  if (fs::is_directory(folder, none) && fs::is_empty(folder, none)) return;
  throw UserError({.where = "--keep",
                   .expected = "a folder that is new or empty",
                   .found = folder.string(),
                   .cause = "an earlier call has written it",
                   .fix = "name another one"});
}

}  // namespace

RecordedScript::RecordedScript(config::DoctorPlan& asked) {
  if (!asked.run) return;
  require_script(asked);
  std::ostream& out = asked.json ? std::cerr : std::cout;
  fs::path folder;
  if (asked.keep.empty()) {
    folder = folder_.emplace("script").path();
  } else {
    folder = fs::absolute(asked.keep);
    make_empty(folder);
  }
  const fs::path package = package_folder();
  set_environment(asked, package);
  out << printable("run       " + asked.config + " is executed by " + base::active_python("").program +
                   ", with recorders for its trainer and its models; " +
                   (asked.online ? "it has the network" : "without a network"))
      << std::endl;
  process_ = std::make_unique<python::WorkerProcess>("", recorder_program());
  const Json reply = run_script(asked, folder, package, *process_);
  const std::string printed = process_->new_output();
  if (asked.verbose) out << printable(printed);
  tell_notes(out, reply.value("notes", Json::array()));
  if (reply.contains("stopped")) stopped(reply["stopped"], printed);
  const std::string script = asked.config,
                    config = python::reply_field(reply, "config", kRecorder).get<std::string>();
  out << printable("run       stopped at train() of " + reply.value("trainer", "") + ", made at " +
                   reply.value("place", ""))
      << '\n';
  if (!asked.keep.empty()) out << printable("kept      " + config) << '\n';
  facts_ = Json::object({{"trainer", reply.value("trainer", "")},
                         {"place", reply.value("place", "")},
                         {"notes", reply.value("notes", Json::array())}});
  const auto socket = reply.value("socket", "");
  const fs::path beside = fs::path(socket).parent_path();
  if (beside != folder) socket_folder_ = beside.string();
  set_variable("HONE_CALLER", socket);
  process_->post(base::dump_json(Json::object({{"do", "serve"}})));
  process_->push();
  std::replace(asked.arguments.begin(), asked.arguments.end(), script, config);
  asked.config = config;
  asked.script = script;
  asked.as = "hone";
  if (const auto method = config::find_method(reply.value("method", ""))) asked.method = *method;
}

RecordedScript::~RecordedScript() {
  process_.reset();  // before its folder goes
  std::error_code none;
  if (!socket_folder_.empty()) fs::remove_all(socket_folder_, none);
}

}  // namespace hone::commands
