#include "rewards/code/code_reward.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/process/active_python.h"
#include "base/stopwatch.h"
#include "python/frames.h"
#include "python/worker_process.h"
#include "rewards/code/code_text.h"
#include "rewards/failure_tracker.h"

namespace hone::rewards {

using base::Json;
using python::WorkerProcess;

namespace {

constexpr const char* kProgramJudge = "judge of programs";  // in messages
constexpr double kStartSeconds = 120;
constexpr double kProgramGrace = 10;  // seconds beyond a program's own limit
constexpr double kCallGrace = 60;
constexpr double kBinaryThreshold = 0.99;  // of open-r1

const python::Program& judge_program() {
  static const python::Program program = {
      .who = kProgramJudge,
      .what_for = "to run the programs of completions",
      .text = std::string(python::worker_base()) +
              "\nown_import('fcntl', 'select', 'shutil', 'socket', 'subprocess', 'tempfile')\n" +
              std::string(kSandboxPython) + "\nRUNNER = " +
              base::dump_json(Json(std::string(kRunnerPython))) + "\n" + std::string(kJudgePython)};
  return program;
}

struct CodeOptions {
  std::string name, column, python;
  bool binary = false;
  std::int64_t parallel = 2, megabytes = 1024;
  double case_seconds = 5, program_seconds = 30;
};

struct Judged {
  std::size_t passed = 0;
  std::string what;  // that went wrong first
  bool late = false, failed = false;
};

// A completion's text: itself, or the content of its last message.
std::string last_text(const Json& completion) {
  if (completion.is_string()) return completion.get<std::string>();
  if (!completion.is_array() || completion.empty() || !completion.back().is_object()) return {};
  const auto content = completion.back().find("content");
  return content != completion.back().end() && content->is_string() ? content->get<std::string>() : "";
}

// [[input, output]] of a row; or why there are none.
Json cases_of(Json row, std::string& why) {
  if (row.is_string()) row = Json::parse(row.get<std::string>(), nullptr, /*allow_exceptions=*/false);
  if (!row.is_object()) return why = "it is no object with test_cases", Json();
  const Json language = row.value("language", Json("python"));
  if (language != "python" && !language.is_null()) {
    return why = "its language is " + base::dump_json(language) +
                 ": hone runs python only. Leave such rows out, or score them with a function of your own",
           Json();
  }
  const Json tests = row.value("test_cases", Json());
  if (!tests.is_array() || tests.empty()) return why = "it has no test_cases", Json();
  Json out = Json::array();
  for (const Json& one : tests) {
    const bool good = one.is_object() && one.contains("input") && one["input"].is_string() &&
                      one.contains("output") && one["output"].is_string();
    if (!good) return why = "a test case without the texts input and output", Json();
    out.push_back({one["input"], one["output"]});
  }
  return out;
}

class CodeReward : public Reward {
 public:
  explicit CodeReward(CodeOptions options) : options_(std::move(options)) { start(); }

  const std::string& name() const override { return options_.name; }
  Scores score(const Request& request) override;

 private:
  struct Programs {
    Json list = Json::array();  // as judge.py takes them
    std::vector<std::size_t> samples;
  };

  void start();
  Programs programs_of(const Request& request, Scores& out, std::size_t& without_code) const;
  std::vector<Judged> judged(const Json& programs, Scores& out);
  std::vector<Judged> ask(const Json& programs);
  void take(const Programs& programs, const std::vector<Judged>& found, std::size_t without_code,
            Scores& out) const;

  CodeOptions options_;
  std::mutex mutex_;  // of all that follows
  std::unique_ptr<WorkerProcess> worker_;
  std::string note_;  // for the first call
};

base::Clock::time_point deadline_in(double seconds) {
  return base::Clock::now() +
         std::chrono::duration_cast<base::Clock::duration>(std::chrono::duration<double>(seconds));
}

void CodeReward::start() {
  worker_ = std::make_unique<WorkerProcess>(options_.python, judge_program());
  std::string frame;
  const WorkerProcess::Outcome outcome = worker_->exchange(deadline_in(kStartSeconds), frame);
  if (outcome != WorkerProcess::Outcome::kAnswered) {
    const bool late = outcome == WorkerProcess::Outcome::kLate;
    const std::string said = python::last_line(worker_->output_tail());
    throw base::UserError({.where = "reward " + options_.name,
                           .expected = "a Python (3.8 or later) that runs programs",
                           .found = base::active_python(options_.python).program + " " +
                                    (late ? "does not answer" : worker_->how_it_ended()) +
                                    (said.empty() ? "" : "; it printed: " + said),
                           .fix = "name another one with --python"});
  }
  const Json hello = python::parse_reply(frame, kProgramJudge);
  if (hello.is_object() && hello.contains("fault")) {
    const auto text = [&](const char* name) {
      return python::reply_text(hello["fault"], name, kProgramJudge);
    };
    throw base::UserError({.where = "reward " + options_.name,
                           .expected = text("expected"),
                           .found = text("found"),
                           .cause = text("cause"),
                           .fix = text("fix")});
  }
  std::string reached;
  for (const Json& one : python::reply_field(hello, "open", kProgramJudge)) {
    if (one.is_string()) reached += (reached.empty() ? "" : ", ") + one.get<std::string>();
  }
  if (!reached.empty())
    note_ = "this system does not let the model's programs be shut in: they reach " + reached;
}

CodeReward::Programs CodeReward::programs_of(const Request& request, Scores& out,
                                             std::size_t& without_code) const {
  if (!request.columns.contains(options_.column)) {
    throw base::UserError({.where = "reward " + options_.name,
                           .expected = "a column `" + options_.column + "` with the test cases of each row",
                           .found = "data without it",
                           .fix = "name yours: code(column=...)"});
  }
  const Json& rows = request.columns[options_.column];
  base::require(rows.is_array() && rows.size() == request.size(), options_.name, "a value for each sample");
  Programs programs;
  for (std::size_t i = 0; i < request.size(); ++i) {
    std::string why;
    Json cases = cases_of(rows[i], why);
    if (!why.empty()) {
      out.failures.push_back(
          {request.first_sample + static_cast<std::int64_t>(i), options_.column + ": " + why});
      continue;
    }
    std::string code = last_python_block(last_text(request.completions[i]));
    without_code += code.empty() ? 1 : 0;
    programs.samples.push_back(i);
    programs.list.push_back({{"code", std::move(code)}, {"cases", std::move(cases)}});
  }
  return programs;
}

// Empty: the process has ended, or does not answer.
std::vector<Judged> CodeReward::ask(const Json& programs) {
  if (worker_ == nullptr) start();
  const auto count = static_cast<double>(programs.size());
  const double rounds = std::ceil(count / static_cast<double>(options_.parallel));
  worker_->post(base::dump_python_json({{"programs", programs},
                                        {"parallel", options_.parallel},
                                        {"seconds", options_.case_seconds},
                                        {"total", options_.program_seconds},
                                        {"megabytes", options_.megabytes}}));
  std::vector<Judged> out;
  try {
    std::string frame;
    if (worker_->exchange(deadline_in(rounds * (options_.program_seconds + kProgramGrace) + kCallGrace),
                          frame) != WorkerProcess::Outcome::kAnswered) {
      worker_.reset();
      return {};
    }
    const Json reply = python::parse_reply(frame, kProgramJudge);
    for (const Json& one : python::reply_field(reply, "results", kProgramJudge)) {
      const Json& passed = python::reply_field(one, "passed", kProgramJudge);
      if (!passed.is_number_unsigned()) python::broken_reply("field 'passed' is no number", kProgramJudge);
      out.push_back({.passed = passed.get<std::size_t>(),
                     .what = python::reply_text(one, "what", kProgramJudge),
                     .late = python::reply_field(one, "late", kProgramJudge) == true,
                     .failed = python::reply_field(one, "failed", kProgramJudge) == true});
    }
  } catch (const base::UserError&) {
    out.clear();
  }
  if (out.size() != programs.size()) {
    worker_.reset();
    return {};
  }
  return out;
}

std::vector<Judged> CodeReward::judged(const Json& programs, Scores& out) {
  if (programs.empty()) return {};
  const std::lock_guard lock(mutex_);
  if (!note_.empty()) out.notes.push_back(std::exchange(note_, {}));
  std::vector<Judged> found = ask(programs);
  if (!found.empty()) return found;
  if (programs.size() > 1)
    out.notes.emplace_back("the process that judges programs has ended; they are judged one by one");
  for (const Json& one : programs) {
    std::vector<Judged> alone = programs.size() > 1 ? ask(Json::array({one})) : found;
    if (alone.empty()) alone.push_back({.what = "it ended the process that judges programs", .late = true});
    found.push_back(std::move(alone.front()));
  }
  return found;
}

void CodeReward::take(const Programs& programs, const std::vector<Judged>& found, std::size_t without_code,
                      Scores& out) const {
  std::vector<Json> shown(out.values.size());
  double late = 0, failed = 0;
  for (std::size_t k = 0; k < found.size(); ++k) {
    const Judged& one = found[k];
    const std::size_t cases = programs.list[k]["cases"].size();
    const double share = static_cast<double>(std::min(one.passed, cases)) / static_cast<double>(cases);
    out.values[programs.samples[k]] = !options_.binary ? share : share > kBinaryThreshold ? 1 : 0;
    shown[programs.samples[k]] = std::to_string(one.passed) + " of " + std::to_string(cases) +
                                 (one.what.empty() ? "" : "; " + one.what);
    late += one.late ? 1 : 0;
    failed += one.failed ? 1 : 0;
  }
  if (found.empty()) return;
  const auto count = static_cast<double>(found.size());
  out.extra.emplace_back(options_.name + " cases", std::move(shown));
  out.metrics = {{options_.name + "/late", late / count},
                 {options_.name + "/failed", failed / count},
                 {options_.name + "/no_code", static_cast<double>(without_code) / count}};
}

Scores CodeReward::score(const Request& request) {
  const base::Clock::time_point begun = base::Clock::now();
  Scores out;
  out.values.assign(request.size(), kNone);
  std::size_t without_code = 0;
  const Programs programs = programs_of(request, out, without_code);
  take(programs, judged(programs.list, out), without_code, out);
  out.broken = all_failed("reward " + options_.name, out, request.size());
  out.seconds = base::seconds_since(begun);
  return out;
}

std::unique_ptr<Reward> open_programs(Parameters parameters, const OpenOptions& given, bool binary) {
  CodeOptions options{.name = parameters.text("name", binary ? "binary_code_reward" : "code_reward"),
                      .column = parameters.text("column", "verification_info"),
                      .python = given.python,
                      .binary = binary};
  options.parallel = parameters.integer("num_parallel", options.parallel, 1);
  options.megabytes = parameters.integer("memory", options.megabytes, 64);
  options.case_seconds = parameters.number("exec_timeout", options.case_seconds);
  options.program_seconds = parameters.number("timeout", options.program_seconds);
  for (const auto& [key, value] :
       {std::pair("exec_timeout", options.case_seconds), std::pair("timeout", options.program_seconds)}) {
    if (!(value > 0 && value <= 1e6)) parameters.fail(key, "seconds above 0", std::to_string(value));
  }
  parameters.finish();
  return std::make_unique<CodeReward>(std::move(options));
}

}  // namespace

std::unique_ptr<Reward> open_code_reward(Parameters parameters, const OpenOptions& options) {
  return open_programs(std::move(parameters), options, /*binary=*/false);
}

std::unique_ptr<Reward> open_binary_code_reward(Parameters parameters, const OpenOptions& options) {
  return open_programs(std::move(parameters), options, /*binary=*/true);
}

std::string last_python_block(std::string_view text) {
  constexpr std::string_view kBegin = "```python\n", kEnd = "```";
  std::string_view found;
  for (std::size_t at = text.find(kBegin); at != std::string_view::npos; at = text.find(kBegin, at)) {
    at += kBegin.size();
    const std::size_t end = text.find(kEnd, at);
    if (end == std::string_view::npos) break;
    found = text.substr(at, end - at);
    at = end + kEnd.size();
  }
  return std::string(found);
}

std::optional<std::string> answer_by_table(const Json& verification_info) {
  std::string why;
  const Json cases = cases_of(verification_info, why);
  if (!why.empty()) return std::nullopt;
  Json table = Json::object();
  for (const Json& one : cases) table[one[0].get<std::string>()] = one[1];
  const std::string text = base::dump_json(Json(base::dump_json(table)));  // a literal of Python too
  return "```python\nimport json, sys\nprint(json.loads(" + text + ")[sys.stdin.read()])\n```";
}

}  // namespace hone::rewards
