#include "doctor/probes/judge_tools.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings/plural.h"
#include "doctor/checks/check_format.h"
#include "model/config/rotations.h"

namespace hone::doctor {

using base::Json;
using base::Level;
using base::Verdict;

namespace {

constexpr double kSlowBatch = 60;  // seconds of calls in a generation batch, one a completion
constexpr double kSlowReset = 5;   // seconds

// Exceptions that say more about the tool than about its arguments.
constexpr std::array<std::string_view, 11> kDefects = {
    "NameError",   "ImportError",    "ModuleNotFoundError", "AttributeError",  "UnboundLocalError",
    "SyntaxError", "RecursionError", "NotImplementedError", "ConnectionError", "ConnectionRefusedError",
    "URLError"};

constexpr std::string_view kNotText =
    "the model is shown text only";  // of tools/worker/fork.py: a block of another type

// "KeyError" of "search raised KeyError: 'x' (tools.py:12 in search)"; empty: none was raised.
std::string raised(const std::string& note) {
  constexpr std::string_view kWord = " raised ";
  const std::size_t at = note.find(kWord);
  if (at == std::string::npos) return "";
  const std::string rest = note.substr(at + kWord.size());
  const std::string name = rest.substr(0, rest.find_first_of(":( "));
  return name.substr(name.rfind('.') == std::string::npos ? 0 : name.rfind('.') + 1);
}

std::string call_text(const TriedTool& tool) {
  return tool.name + "(" + format::shown(base::dump_json(tool.arguments)) + ")";
}

std::string said(const tools::Done& done) {
  return done.note.empty() ? format::shown(done.text) : done.note;
}

// TOOL-01
Verdict judge_call(const TriedTool& tool) {
  Verdict out{.code = "TOOL-01"};
  const tools::Done& done = tool.first;
  out.what = call_text(tool) + " answers";
  if (!done.failed) {
    out.evidence = format::shown(done.text);
    if (done.printed.empty()) return out;
    out.level = Level::kNote;
    out.what = "the tool " + tool.name + " prints: the model is told what it returns, and nothing else";
    out.evidence = format::shown(done.printed);
    out.fix = "return what the model has to know";
    return out;
  }
  if (done.note.find(kNotText) != std::string::npos) {
    out.level = Level::kWarn;
    out.what = "the tool " + tool.name + " returns what the model cannot be shown";
    out.evidence = said(done);
    out.cause = "hone trains on text only: such a call is a failed one";
    out.fix = "return text, or blocks of type text alone";
    return out;
  }
  const std::string error = raised(done.note);
  const bool defect = std::find(kDefects.begin(), kDefects.end(), error) != kDefects.end();
  const bool ended = error.empty();  // it did not end, or its process died
  out.evidence = said(done);
  if (!defect && !ended) {
    out.level = Level::kNote;
    out.what = call_text(tool) + " raises " + error + ": the model reads it as the tool's answer";
    out.cause = "made-up arguments: nothing is wrong where the tool refuses them";
    out.fix = "none, where these arguments are wrong ones";
    return out;
  }
  out.level = Level::kWarn;
  out.what = "the tool " + tool.name +
             (defect ? " raises " + error + " for arguments that its schema takes"
                     : " does not answer a call that its schema takes");
  out.cause =
      defect ? "suspected: a defect of the tool or of what it needs (a module, a file, a service): " + error +
                   " is seldom about arguments"
      : done.note.find("did not end") != std::string::npos ? "it hangs, or takes longer than tool_timeout"
                                                           : "its process ended within the call";
  out.fix = "call " + call_text(tool) + " by hand where hone runs, and correct it";
  out.cost = "every call of it is a failure that the model learns from";
  return out;
}

// TOOL-02
Verdict judge_repeat(const TriedTool& tool) {
  Verdict out{.code = "TOOL-02"};
  out.what = call_text(tool) + " answers the same twice";
  if (!tool.differs) return out;
  out.level = Level::kWarn;
  out.what = "the tool " + tool.name + " answers the same call otherwise the second time";
  out.evidence =
      call_text(tool) + ": " + format::shown(tool.first.text) + ", then " + format::shown(tool.second.text);
  out.cause =
      "suspected: it depends on the clock, on random numbers, on a service, or on what was called before";
  out.fix =
      "draw from a generator of a fixed seed, or record answers; where it cannot be helped, compare runs by --replay";
  out.cost = "completions of a group see different worlds, and a repeated run is another one";
  return out;
}

// TOOL-10
Verdict judge_seconds(const train::RunView& run, const TriedTool& tool) {
  const double each = tool.twice ? std::min(tool.first.seconds, tool.second.seconds) : tool.first.seconds;
  const double rounds = std::ceil(static_cast<double>(run.plan.policy.generation_batch_size) /
                                  static_cast<double>(run.plan.acting.tool_workers));
  Verdict out{.code = "TOOL-10"};
  out.what = "a call of " + tool.name + " takes " + format::number(each) + " s";
  if (tool.first.failed || rounds * each < kSlowBatch) return out;
  out.level = Level::kWarn;
  out.evidence = base::counted(run.plan.policy.generation_batch_size, "completion") + " with a call each, " +
                 std::to_string(run.plan.acting.tool_workers) + " at once: " + format::number(rounds * each) +
                 " s in each generation batch";
  out.cause = "calls are slow for the number of tool_workers";
  out.fix =
      "tool_workers: " + std::to_string(std::min<std::int64_t>(run.plan.policy.generation_batch_size, 64)) +
      " where they wait and do not compute, async tools, or a cache in the tool";
  out.cost = "sampling waits for tools";
  return out;
}

std::int64_t tokens_of(const train::RunView& run, const TriedTool& tool, const std::string& result) {
  const train::ToolUse& use = *run.sampled().tools;
  return std::ssize(use.suffixes.suffix({{.name = tool.name, .arguments = tool.arguments}}, {result}, -1));
}

// TOOL-03
std::optional<Verdict> judge_length(const train::RunView& run, const TriedTool& tool) {
  const std::int64_t cap = run.plan.policy.max_completion_length,
                     most = run.plan.acting.max_tool_result_tokens;
  if (tool.first.failed || most > 0) return std::nullopt;
  const std::int64_t length = tokens_of(run, tool, tool.first.text);
  if (length < cap) return std::nullopt;
  return Verdict{.code = "TOOL-03",
                 .level = Level::kWarn,
                 .what = "a result of " + tool.name + " is longer than a completion may be",
                 .evidence = call_text(tool) + ": " + base::counted(length, "token") +
                             ", max_completion_length " + std::to_string(cap),
                 .cause = "the tool returns all that it has",
                 .fix = "max_tool_result_tokens: " + std::to_string(std::max<std::int64_t>(16, cap / 4)) +
                        ", or a tool that answers more briefly",
                 .cost = "the completion ends at the call: the model never reads the result"};
}

// TOOL-04
std::optional<Verdict> judge_control(const train::RunView& run, const TriedTool& tool) {
  for (const std::string& token : run.text->tokenizer.control_tokens()) {
    if (token.empty() || tool.first.failed || tool.first.text.find(token) == std::string::npos) continue;
    const bool plain = run.plan.acting.tool_text_control_tokens == "plain";
    Verdict out{.code = "TOOL-04"};
    out.level = plain ? Level::kNote : Level::kWarn;
    out.what =
        "a result of " + tool.name + " holds the control token `" + token + "`" +
        (plain ? ": it is read as plain text" : ", which the model reads as a turn of the conversation");
    out.evidence = format::shown(tool.first.text);
    out.cause = plain ? "" : "tool_text_control_tokens: as_is";
    out.fix = plain ? "" : "tool_text_control_tokens: plain";
    out.cost = plain ? "" : "who writes what the tool reads can write the system's and the user's turns";
    return out;
  }
  return std::nullopt;
}

// TOOL-01, TOOL-02, TOOL-10 of a reset.
Verdict judge_reset(const TriedEnvironment& one) {
  const std::string name = "reset() of " + one.class_name;
  if (!one.error.empty() && !one.worlds_differ) {
    return {.code = "TOOL-01",
            .level = Level::kFail,
            .what = name + " fails for a row of the data",
            .evidence = one.where + ": " + one.error,
            .cause = "the environment does not take this row, or what it needs is not there",
            .fix = "correct reset(), or remove the row",
            .cost = "the run ends at the batch that draws this row"};
  }
  if (!one.error.empty()) {
    return {
        .code = "TOOL-02",
        .level = Level::kFail,
        .what = name + " says something else to each completion of a prompt",
        .evidence = one.where + ": " + one.error,
        .cause = "it draws its task at random, or keeps something of the completion before",
        .fix =
            "make the task from the row, and set every field in reset(); a parameter `seed` gets the group's number",
        .cost = "completions that are compared have different tasks: the run ends at its first batch"};
  }
  if (one.differs) {
    return {
        .code = "TOOL-02",
        .level = Level::kWarn,
        .what = name + " says something else the second time, for the same row",
        .evidence = one.where + ": " + format::shown(one.first) + ", then " + format::shown(one.second),
        .cause = "it depends on the clock, on random numbers, or keeps something of the completion before",
        .fix = "make the task from the row, and set every field in reset()",
        .cost = "an instance is used again and again: later batches have other tasks than their rows say"};
  }
  Verdict out{.code = one.seconds > kSlowReset ? "TOOL-10" : "TOOL-02"};
  out.what = name + (one.seconds > kSlowReset ? " takes " + format::number(one.seconds) + " s"
                                              : " says the same for the same row");
  if (one.seconds <= kSlowReset) return out;
  out.level = Level::kWarn;
  out.evidence = one.where + "; each completion of a batch begins with one";
  out.cause = "the environment starts something in reset()";
  out.fix = "start it in __init__: an instance is made once and reset for each completion";
  out.cost = "the time before each batch";
  return out;
}

}  // namespace

Verdicts judge_trials(const train::RunView& run, const ToolTrials& trials) {
  Verdicts out;
  for (const TriedEnvironment& one : trials.environments) out.push_back(judge_reset(one));
  for (const TriedTool& one : trials.tools) {
    out.push_back(judge_call(one));
    if (one.twice) out.push_back(judge_repeat(one));
    out.push_back(judge_seconds(run, one));
    if (auto found = judge_length(run, one)) out.push_back(*std::move(found));
    if (auto found = judge_control(run, one)) out.push_back(*std::move(found));
  }
  if (trials.late) {
    out.push_back({.code = "TOOL-01",
                   .level = Level::kNote,
                   .what = "not every tool was called: there was no time",
                   .evidence = base::counted(std::ssize(trials.tools), "tool") + " tried"});
  }
  return out;
}

Verdict judge_room(const train::RunView& run) {
  const train::SampledData& data = run.sampled();
  const std::int64_t cap = run.plan.policy.max_completion_length,
                     most = run.plan.acting.max_tool_calling_iterations;
  const std::int64_t prompt = data.train_prompts.longest();
  const std::int64_t positions = model::longest_generated(run.model->config());
  const std::int64_t room = std::min(cap, positions - prompt);
  std::int64_t smallest = -1;
  std::string name;
  std::vector<std::string> environments = data.tools->environments;
  if (environments.empty()) environments.emplace_back();
  for (const std::string& environment : environments) {
    for (const tools::Tool& tool : data.tools->pool->tools(environment)) {
      const TriedTool tried{.name = tool.name, .arguments = smallest_arguments(tool.schema)};
      const Json call = {{"name", tool.name}, {"arguments", tried.arguments}};
      const std::int64_t length = std::ssize(run.text->tokenizer.encode(base::dump_json(call), false).ids) +
                                  1 + tokens_of(run, tried, "");
      if (smallest >= 0 && length >= smallest) continue;
      smallest = length;
      name = tool.name;
    }
  }
  Verdict out{.code = "TOOL-03"};
  if (smallest < 0) return out.what = "no tools", out;
  const std::int64_t rounds = std::max<std::int64_t>(0, (room - 1) / smallest);
  out.what = base::counted(rounds, "round") + " of calls fit into a completion";
  out.evidence = "the shortest call, of " + name + ", with an empty result is " +
                 base::counted(smallest, "token") + "; max_completion_length " + std::to_string(cap) +
                 ", longest prompt with schemas " + std::to_string(prompt) + ", the model's positions " +
                 std::to_string(positions);
  const bool by_cap = cap <= positions - prompt;
  if (rounds < 1 && most != 0) {
    out.level = Level::kFail;
    out.what = "no call of a tool fits into a completion with its result";
    out.cause = by_cap ? "max_completion_length is shorter than a call, its result and an answer"
                       : "the prompts with the tools' schemas fill the model's positions";
    out.fix = by_cap ? "max_completion_length: " + std::to_string(std::max<std::int64_t>(256, 8 * smallest))
                     : "fewer tools, shorter docstrings, shorter prompts";
    out.cost = "no completion ever reads a result";
  } else if (rounds < most) {
    out.level = Level::kNote;
    out.what += ", max_tool_calling_iterations allows " + std::to_string(most);
    out.cause = "max_completion_length ends a dialogue first";
    out.fix = "max_completion_length: " + std::to_string((most + 1) * smallest) +
              " or more, where so many rounds are wanted";
  }
  return out;
}

}  // namespace hone::doctor
