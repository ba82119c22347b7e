#include "data/files/row_function.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/process/active_python.h"
#include "base/stopwatch.h"
#include "data/files/describe_row.h"
#include "data/python/row_worker_text.h"
#include "python/worker_process.h"

namespace hone::data {

using base::Clock;
using base::Json;
using base::UserError;

namespace {

using Outcome = python::WorkerProcess::Outcome;

constexpr const char* kRowWorker = "row worker";
constexpr double kLoadSeconds = 120;  // for the function's imports
constexpr double kMostSeconds = 1e8;

const python::Program& row_program() {
  static const python::Program program = {
      .who = kRowWorker,
      .what_for = "to run row_function",
      .text = std::string(python::worker_base()) + std::string(kRowWorkerPython)};
  return program;
}

Clock::time_point deadline_in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::min(seconds, kMostSeconds)));
}

// {"file", "function"} of "path/to/map.py:row", {"module", "function"} of "package.map.row".
Json entry_of(const std::string& word) {
  const std::size_t colon = word.rfind(".py:");
  if (colon != std::string::npos)
    return {{"file", std::filesystem::absolute(word.substr(0, colon + 3)).string()},
            {"function", word.substr(colon + 4)}};
  const std::size_t dot = word.rfind('.');
  if (dot != std::string::npos && dot > 0 && dot + 1 < word.size())
    return {{"module", word.substr(0, dot)}, {"function", word.substr(dot + 1)}};
  throw UserError({.where = "option row_function",
                   .expected = "path/to/file.py:function or package.module.function",
                   .found = "'" + word + "'",
                   .cause = "",
                   .fix = "write row_function: map.py:" + word});
}

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g s", seconds);
  return text.data();
}

}  // namespace

struct RowFunction::Worker {
  explicit Worker(const base::RowFunctionPlan& of)
      : plan(of), entry(entry_of(of.word)), process(of.python, row_program()) {
    process.post(base::dump_json({{"do", "load"}, {"function", entry}}));
    std::string frame;
    const Outcome outcome = process.exchange(deadline_in(kLoadSeconds), frame);
    if (outcome != Outcome::kAnswered) throw_no_start(outcome == Outcome::kLate);
    const Json reply = python::parse_reply(frame, kRowWorker);
    throw_fault(reply, "row_function " + plan.word);
    file = python::reply_text(reply, "file", kRowWorker);
  }

  [[noreturn]] void throw_no_start(bool late) {
    const std::string printed = late ? process.ask_where() : process.output_tail();
    throw UserError(
        {.where = "row_function " + plan.word,
         .expected = "a Python interpreter (3.8 or later) that loads it",
         .found = (late ? "no answer within " + seconds_text(kLoadSeconds)
                        : base::active_python(plan.python).program + " " + process.how_it_ended()) +
                  (printed.empty() ? "" : ". It printed:\n" + printed),
         .cause = late ? "an import that hangs" : "not a Python interpreter, or an import that ends it",
         .fix = "import the file with this interpreter to see the error"});
  }

  static void throw_fault(const Json& reply, const std::string& where) {
    if (!reply.is_object() || !reply.contains("fault")) return;
    const Json& fault = reply["fault"];
    const auto text = [&fault](const char* name) { return python::reply_text(fault, name, kRowWorker); };
    throw UserError({.where = where,
                     .expected = text("expected"),
                     .found = text("found"),
                     .cause = text("cause"),
                     .fix = text("fix")});
  }

  [[noreturn]] void throw_row(const std::string& where, const std::string& found,
                              const std::string& cause) const {
    throw UserError({.where = where,
                     .expected = "a row, several or None from row_function " + plan.word,
                     .found = found,
                     .cause = cause,
                     .fix = "correct the function, or let it return None for rows that it cannot read"});
  }

  std::vector<Json> next(const std::string& where) {
    std::string frame;
    const Outcome outcome = process.exchange(deadline_in(plan.seconds), frame);
    if (outcome == Outcome::kLate) {
      const std::string place = python::place_in_dump(process.ask_where(), file);
      throw_row(where,
                "no answer within " + seconds_text(plan.seconds) + (place.empty() ? "" : " (" + place + ")"),
                "the function hangs, or needs more than row_timeout");
    }
    if (outcome == Outcome::kGone) {
      const std::string said = python::last_line(process.output_tail());
      throw_row(where, "its process " + process.how_it_ended(),
                said.empty() ? "" : "its last output: " + said);
    }
    Json reply = python::parse_reply(frame, kRowWorker);
    throw_fault(reply, where);
    if (reply.is_object() && reply.contains("bad"))
      throw_row(where, python::reply_text(reply, "bad", kRowWorker), "");
    if (reply.is_object() && reply.contains("raised")) {
      const Json& raised = reply["raised"];
      const std::string place = python::reply_text(raised, "place", kRowWorker);
      throw_row(where,
                python::reply_text(raised, "what", kRowWorker) + (place.empty() ? "" : " (" + place + ")"),
                python::reply_text(raised, "trace", kRowWorker));
    }
    const Json& rows = python::reply_field(reply, "rows", kRowWorker);
    if (!rows.is_array()) python::broken_reply("field 'rows' is no list", kRowWorker);
    std::vector<Json> out;
    for (const Json& row : rows) {
      if (!row.is_object()) python::broken_reply("a row that is " + a_type(row), kRowWorker);
      out.push_back(row);
    }
    return out;
  }

  base::RowFunctionPlan plan;
  Json entry;
  python::WorkerProcess process;
  std::string file;  // of the function's code
};

RowFunction::RowFunction(const base::RowFunctionPlan& plan) : worker_(std::make_unique<Worker>(plan)) {}

RowFunction::~RowFunction() {
  worker_->process.hang_up();
  worker_->process.wait_for_end(deadline_in(2));
}

std::vector<std::vector<Json>> RowFunction::call(const std::vector<Json>& rows,
                                                 const std::function<std::string(std::size_t)>& where) {
  for (const Json& row : rows) worker_->process.post(base::dump_python_json({{"do", "row"}, {"row", row}}));
  std::vector<std::vector<Json>> out;
  for (std::size_t i = 0; i < rows.size(); ++i) out.push_back(worker_->next(where(i)));
  return out;
}

}  // namespace hone::data
