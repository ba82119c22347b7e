#include "commands/gpu_check/check.h"

#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/exit_codes.h"
#include "base/files/appended_file.h"
#include "base/files/scratch_folder.h"
#include "base/process/signal_names.h"
#include "base/stopwatch.h"
#include "base/strings/printable.h"
#include "base/version.h"
#include "commands/commands.h"
#include "commands/gpu_check/stage.h"
#include "commands/process/program_paths.h"
#include "doctor/probes/machine/kernel_child.h"

namespace hone::commands {

namespace {

using base::Json;

constexpr std::size_t kMostFailures = 40;  // of a stage, in the report
constexpr int kGrace = 5;                  // seconds of a child that is late by its own clock

// What is known of a stage once its child has ended.
struct Found {
  std::string state;  // "passed", "failed", "not run"
  std::string reason;
  std::vector<std::string> failures;
  std::int64_t failed = 0, tried = 0;
  Json facts = Json::object();
  double seconds = 0;
};

std::string now() {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string last_line(const base::fs::path& file) {
  std::ifstream in(file);
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) last = line;
  return last.substr(0, 400);
}

class Report {
 public:
  explicit Report(const std::string& path) : path_(path) {
    std::ofstream(path, std::ios::app).flush();
    if (std::ifstream(path)) return;
    throw base::UserError({.where = "option output",
                           .expected = "a file that can be written",
                           .found = path,
                           .cause = "the folder is not there, or may not be written",
                           .fix = "name another --output"});
  }
  void add(const Json& line) const {
    std::ofstream out(path_, std::ios::app);
    out << base::dump_json(line) << '\n' << std::flush;
  }

 private:
  std::string path_;
};

void add_failure(Found& found, const std::string& why) {
  found.failed += 1;
  if (found.failures.size() < kMostFailures) found.failures.push_back(why);
}

void hear(Found& found, std::string& begun, bool& ended, const std::string& line) {
  const Json said = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object()) return;
  const auto text = [&](const char* name) { return said.at(name).get<std::string>(); };
  if (said.contains("begin")) begun = text("begin");
  if (said.contains("failed")) add_failure(found, text("failed"));
  if (said.contains("not run")) found.reason = text("not run");
  if (said.contains("fact")) found.facts[text("fact")] = said.at("value");
  if (said.contains("end")) {
    found.tried = said.at("end").get<std::int64_t>();
    ended = true;
  }
}

// How a child that did not come to its end died.
std::string death(const doctor::ChildEnd& end, const GpuStage& stage, const base::fs::path& errors) {
  std::string out = !end.started ? "the child process did not start"
                    : end.late || end.signal == SIGALRM
                        ? "did not end within " + std::to_string(stage.seconds) + " s"
                    : end.signal != 0 ? "was killed by " + base::signal_text(end.signal)
                                      : "ended with status " + std::to_string(end.status);
  if (const std::string said = last_line(errors); !said.empty()) out += " (" + said + ")";
  return out;
}

Found run_stage(const GpuStage& stage, const std::string& device, const base::fs::path& scratch) {
  const base::fs::path errors = scratch / "stderr";
  const Json input = {{"stage", stage.name},
                      {"device", device},
                      {"scratch", scratch.string()},
                      {"errors", errors.string()},
                      {"seconds", stage.seconds}};
  Found found;
  std::string begun;
  bool ended = false;
  const auto start = base::Clock::now();
  const doctor::ChildEnd end =
      doctor::run_child(own_program(), {"gpu-check-stage"}, base::dump_json(input),
                        std::chrono::seconds(stage.seconds + kGrace),
                        [&](const std::string& line) { hear(found, begun, ended, line); });
  found.seconds = base::seconds_since(start);
  if (!ended) add_failure(found, (begun.empty() ? "" : begun + ": ") + death(end, stage, errors));
  found.state = found.failed > 0 ? "failed" : found.reason.empty() ? "passed" : "not run";
  return found;
}

Json line_of(const GpuStage& stage, const Found& found) {
  Json out = {
      {"stage", stage.name}, {"state", found.state}, {"seconds", found.seconds}, {"tried", found.tried}};
  if (!found.reason.empty()) out["reason"] = found.reason;
  if (found.failed > 0) {
    out["failed"] = found.failed;
    out["failures"] = found.failures;
  }
  if (!found.facts.empty()) out["facts"] = found.facts;
  return out;
}

std::string shown_fact(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number_float()) return base::dump_json(value);
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value.get<double>());
  return text;
}

void show(const GpuStage& stage, const Found& found, const std::string& said) {
  constexpr std::size_t kShownFailures = 3;
  char head[64];
  std::snprintf(head, sizeof head, "%-8s %-10s ", found.state.c_str(), std::string(stage.name).c_str());
  std::string text = head + std::string(stage.what);
  if (found.state == "not run") {
    text += ": " + (found.reason == said ? "for the same reason" : found.reason);
  } else {
    std::snprintf(head, sizeof head, ", %.1f s", found.seconds);
    text += head;
    if (found.tried > 0) text += ", " + std::to_string(found.tried) + " tried";
    if (found.failed > 0) text += ", " + std::to_string(found.failed) + " failed";
  }
  for (std::size_t i = 0; i < std::min(kShownFailures, found.failures.size()); ++i)
    text += "\n         - " + found.failures[i];
  if (found.failed > static_cast<std::int64_t>(kShownFailures))
    text += "\n         - ... (the report has more)";
  for (const auto& [name, value] : found.facts.items())
    text += "\n         " + name + ": " + shown_fact(value);
  std::cout << base::printable(text) << '\n' << std::flush;
}

Json first_line(const config::GpuCheckPlan& plan) {
  utsname system{};
  uname(&system);
  return {{"report", "hone-gpu-check-1"},
          {"hone", base::kHoneVersion},
          {"time", now()},
          {"device", plan.device},
          {"system", std::string(system.sysname) + " " + system.release + " " + system.machine},
          {"processors", std::thread::hardware_concurrency()}};
}

// A stage that was asked for and that there is not.
void check_names(const std::vector<std::string>& only) {
  std::string all;
  for (const GpuStage& stage : gpu_stages()) all += (all.empty() ? "" : ", ") + std::string(stage.name);
  for (const std::string& name : only) {
    if (std::any_of(gpu_stages().begin(), gpu_stages().end(),
                    [&](const GpuStage& one) { return one.name == name; }))
      continue;
    throw base::UserError(
        {.where = "option stages", .expected = "one of " + all, .found = name, .cause = {}, .fix = {}});
  }
}

}  // namespace

int check_gpu(const config::GpuCheckPlan& plan) {
  check_names(plan.stages);
  const Report report(plan.output);
  report.add(first_line(plan));
  const base::ScratchFolder scratch("gpu_check");
  std::string said;      // the reason of the stage before
  std::string why_none;  // what kept the first stage from running keeps all of them
  std::int64_t passed = 0, failed = 0, not_run = 0;
  for (const GpuStage& stage : gpu_stages()) {
    const auto& only = plan.stages;
    const bool named = std::find(only.begin(), only.end(), stage.name) != only.end();
    if (!named && (!only.empty() || stage.only_named)) continue;
    Found found;
    if (why_none.empty()) {
      found = run_stage(stage, plan.device, scratch.path());
    } else {
      found.state = "not run";
      found.reason = why_none;
    }
    if (found.state == "not run" && passed + failed == 0) why_none = found.reason;
    report.add(line_of(stage, found));
    show(stage, found, said);
    said = found.reason;
    passed += found.state == "passed" ? 1 : 0;
    failed += found.state == "failed" ? 1 : 0;
    not_run += found.state == "not run" ? 1 : 0;
  }
  report.add({{"passed", passed}, {"failed", failed}, {"not run", not_run}, {"time", now()}});
  std::cout << passed << " passed, " << failed << " failed, " << not_run << " not run\n" << std::flush;
  return failed > 0 ? 1 : 0;
}

int gpu_check(const std::vector<std::string>& arguments) {
  const config::GpuCheckPlan plan = config::parse_gpu_check(arguments);
  const int code = check_gpu(plan);
  std::cout << "report: " << base::printable(plan.output) << "; docs/limits.md says where to send it\n"
            << std::flush;
  return code;
}

}  // namespace hone::commands
