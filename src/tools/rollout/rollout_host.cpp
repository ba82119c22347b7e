#include "tools/rollout/rollout_host.h"

#include <chrono>

#include "base/error.h"
#include "base/process/active_python.h"
#include "base/process/stop_request.h"
#include "python/frames.h"
#include "python/program.h"
#include "tools/rollout/rollout_text.h"
#include "tools/tool_spec.h"

namespace hone::tools {

using base::Json;

namespace {

constexpr const char* kHost = "process of the rollout function";
constexpr auto kLoad = std::chrono::minutes(5);  // that imports have
constexpr auto kGlance = std::chrono::seconds(5);

const python::Program& rollout_program() {
  static const python::Program program = {.who = kHost,
                                          .what_for = "to run the rollout function",
                                          .text = std::string(python::worker_base()) +
                                                  std::string(kRolloutsPython) + std::string(kRolloutPython)};
  return program;
}

[[noreturn]] void refuse(const Json& fault, const std::string& where) {
  throw base::UserError({.where = where,
                         .expected = python::reply_text(fault, "expected", kHost),
                         .found = python::reply_text(fault, "found", kHost),
                         .cause = python::reply_text(fault, "cause", kHost),
                         .fix = python::reply_text(fault, "fix", kHost)});
}

Json refused(const base::ErrorText& text) {
  return {{"refused",
           {{"where", text.where}, {"expected", text.expected}, {"found", text.found}, {"fix", text.fix}}}};
}

}  // namespace

RolloutHost::RolloutHost(RolloutHostOptions options) : options_(std::move(options)) {
  start();
}

void RolloutHost::start() {
  const ToolFile parsed = parse_tool_word(options_.word, "rollout");
  if (parsed.names.size() != 1) {
    throw base::UserError({.where = where(),
                           .expected = "one function",
                           .found = std::to_string(parsed.names.size()) + " names",
                           .fix = "write rollout: rollout.py:function"});
  }
  host_ = std::make_unique<python::WorkerProcess>(options_.python, rollout_program());
  host_->post(base::dump_json({{"do", "load"},
                               {parsed.is_file ? "file" : "module", parsed.file_or_module},
                               {"function", parsed.names.front()}}));
  std::string frame;
  const python::WorkerProcess::Outcome outcome = host_->exchange(base::Clock::now() + kLoad, frame);
  if (outcome == python::WorkerProcess::Outcome::kLate) {
    const std::string last = python::last_line(host_->ask_where());
    host_.reset();
    ended("imports it", "did not answer within 5 minutes" + (last.empty() ? "" : ": " + last));
  }
  if (outcome == python::WorkerProcess::Outcome::kGone) ended("imports it", host_->how_it_ended());
  const Json reply = python::parse_reply(frame, kHost);
  if (reply.contains("fault")) refuse(reply["fault"], where());
}

void RolloutHost::ended(const char* doing, const std::string& how) const {
  const std::string last = host_ == nullptr ? "" : python::last_line(host_->output_tail());
  throw base::UserError(
      {.where = where(),
       .expected = std::string("a Python process that ") + doing,
       .found = base::active_python(options_.python).program + " " + how +
                (last.empty() ? "" : ". It printed: " + last),
       .cause = "the function or an import of it ends the process, or memory ran out",
       .fix = "call the function with this interpreter to see the error, or name yours with --python"});
}

std::string RolloutHost::receive(const char* doing) {
  std::string frame;
  for (;;) {
    const python::WorkerProcess::Outcome outcome = host_->exchange(base::Clock::now() + kGlance, frame);
    if (outcome == python::WorkerProcess::Outcome::kAnswered) return frame;
    if (outcome == python::WorkerProcess::Outcome::kGone) ended(doing, host_->how_it_ended());
    base::cut_if_overdue();
  }
}

Json RolloutHost::call(const Json& prompts, const Json& about, const Complete& complete) {
  if (host_ == nullptr) start();
  try {
    host_->post(base::dump_python_json({{"do", "rollout"}, {"prompts", prompts}, {"about", about}}));
    for (;;) {
      const Json reply = python::parse_reply(receive("runs it"), kHost);
      if (reply.is_object() && reply.contains("fault")) refuse(reply["fault"], where());
      if (!reply.is_object() || !reply.contains("generate"))
        return python::reply_field(reply, "rollout", kHost);
      Json answer;
      try {
        answer = complete(reply["generate"]);
      } catch (const base::UserError& error) {
        answer = refused(error.text());
      }
      host_->post(base::dump_json(answer));
    }
  } catch (...) {
    host_.reset();  // it may still be in the middle of the call
    throw;
  }
}

std::string RolloutHost::printed() {
  return host_ == nullptr ? std::string() : host_->new_output();
}

}  // namespace hone::tools
