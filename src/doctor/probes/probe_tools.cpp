// Probes P14 and P15 (docs/design.md): the tools of a run are called once before it, and its model is asked whether it calls them.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/stopwatch.h"
#include "base/strings/plural.h"
#include "doctor/checks/check_format.h"
#include "doctor/examination.h"
#include "doctor/probes/drawn_rows.h"
#include "doctor/probes/judge_tools.h"
#include "rollout/generate.h"
#include "train/batches/rollout_source.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr double kToolPatience = 10;              // seconds of calls, and of rewards
constexpr std::uint64_t kProbeStep = 0xFFFFFD80;  // randomness apart from every training batch's
constexpr std::size_t kTurnsAtOnce = 4;
constexpr std::size_t kCallPrompts = 8, kDeepPrompts = 16;
constexpr std::int64_t kTurnTokens = 64, kDeepTokens = 512;  // a call mostly comes first
constexpr double kSamplingSeconds = 10, kDeepSeconds = 60;

// First turns of some prompts, without the tools being called.
struct FirstTurns {
  std::int64_t asked = 0, calling = 0, unread = 0, thinking = 0;  // thinking: cut within its reasoning
  std::string unread_text, text;                                  // of one each
};

bool is_thinking(const std::string& prompt, const std::string& text) {
  const std::string all = prompt + text;
  const std::size_t open = all.rfind("<think>");
  return open != std::string::npos && all.find("</think>", open) == std::string::npos;
}

class Sampler {
 public:
  Sampler(const train::RunView& run, std::int64_t most_tokens)
      : run_(run),
        own_(run.sampled().tools->environments.empty() ? nullptr : new train::ToolUse(own_tools(run))),
        use_(own_ != nullptr ? *own_ : *run.sampled().tools),
        options_(train::sampling_options(run.plan, run.model->config(), run.text->tokenizer)) {
    options_.max_new_tokens = std::min(options_.max_new_tokens, most_tokens);
    options_.samples = 1;
    options_.step = kProbeStep;
    const std::vector<std::int32_t>& ends = use_.suffixes.turn_ends();
    options_.stop_ids.insert(options_.stop_ids.end(), ends.begin(), ends.end());
  }

  void ask(const std::vector<std::size_t>& places, FirstTurns& found) {
    const train::PolicyPrompts& prompts = run_.sampled().train_prompts;
    std::vector<const data::PromptRow*> rows;
    for (const std::size_t place : places) rows.push_back(&prompts.rows[place]);
    options_.prompt_keys = places;
    const std::vector<train::ActingPrompt> asked =
        train::begin_dialogues(rows, options_, run_.text->tokenizer, use_);
    std::vector<std::vector<std::int32_t>> ids;
    for (const train::ActingPrompt& one : asked) ids.push_back(one.ids);
    const std::vector<rollout::Completion> done = rollout::generate(*run_.model, ids, options_);
    for (std::size_t i = 0; i < done.size(); ++i) take(asked[i], done[i], found);
  }

 private:
  void take(const train::ActingPrompt& prompt, const rollout::Completion& done, FirstTurns& found) const {
    const text::Tokenizer& tokenizer = run_.text->tokenizer;
    const std::string text = tokenizer.decode(done.ids, false);
    const tools::Turn turn = use_.parser.parse(prompt.text, text, tokenizer.decode(done.ids, true),
                                               use_.schemas(prompt.actors.front().environment));
    const bool cut = done.finish_reason == rollout::FinishReason::kLength;
    const bool thinking = is_thinking(prompt.text, text);
    found.asked += 1;
    found.text = text;
    if (!turn.calls.empty() || (cut && !thinking && use_.parser.opens_call(text))) {
      found.calling += 1;
    } else if (thinking) {
      found.thinking += 1;
    } else if (use_.parser.opens_call(text)) {
      found.unread += 1;
      found.unread_text = text;
    }
  }

  const train::RunView run_;
  const std::unique_ptr<train::ToolUse> own_;  // where environments are reset
  train::ToolUse& use_;
  rollout::GenerateOptions options_;
};

Verdict judge(const FirstTurns& found, std::int64_t tokens) {
  Verdict out{.code = "TOOL-06"};
  const std::string of = " of " + base::counted(found.asked, "prompt");
  out.what = "a call is begun for " + std::to_string(found.calling) + of;
  out.evidence = "first turns of at most " + base::counted(tokens, "token");
  if (found.unread > found.calling) {
    out.code = "TOOL-07";
    out.level = Level::kWarn;
    out.what = "a call is begun for " + std::to_string(found.unread) + of +
               ", and cannot be read: it is plain text, and no tool runs";
    out.evidence = "one: \"" + format::shown(found.unread_text, 160) + "\"";
    out.cause =
        "suspected: the model writes calls in another form than its chat template's, or JSON that does not parse";
    out.fix = "show the form in the prompt, or train with SFT on dialogues with calls first";
    out.cost = "completions that wanted a tool and got none";
    return out;
  }
  if (found.calling > 0) return out;
  if (found.thinking * 4 > found.asked) {  // what comes behind the reasoning is not known
    out.level = Level::kNote;
    out.what = "whether the model calls its tools is not known: it still thinks after " +
               base::counted(tokens, "token");
    out.fix = "hone doctor --deep samples longer turns";
    return out;
  }
  if (found.asked < static_cast<std::int64_t>(kCallPrompts)) {
    out.level = Level::kNote;
    return out;
  }
  out.level = Level::kWarn;
  out.what = "the model does not call its tools: no call is begun for any" + of;
  out.evidence += "; one: \"" + format::shown(found.text, 120) + "\"";
  out.cause =
      "suspected: a base model, or one that was not trained with tools; or a prompt that does not ask for them";
  out.fix = "train with SFT on dialogues with calls first, or ask for the tools in the prompt";
  out.cost = "what is never sampled is never learned: a run without tools";
  return out;
}

}  // namespace

bool has_tools(const train::RunView& run) {
  return run.samples() && run.sampled().tools != nullptr && !run.sampled().train_prompts.rows.empty();
}

Verdicts probe_tools(const train::RunView& run, Depth depth) {
  if (!has_tools(run)) return {};
  Verdicts out = {judge_room(run)};
  const bool of_caller = calls_the_caller(run.plan);
  if (of_caller || (!run.plan.probe_rewards && depth == Depth::kRun)) {
    out.push_back({.code = "TOOL-01",
                   .level = Level::kNote,
                   .what = of_caller
                               ? "tools were not called: they are functions of the program that called hone"
                               : "tools were not called: probe_rewards is false"});
  } else {
    for (Verdict& one : judge_trials(run, try_tools(run, kToolPatience))) out.push_back(std::move(one));
  }
  if (!run.plan.probe_rewards && depth == Depth::kRun) return out;
  for (Verdict& one : judge_dialogue_rewards(run, kToolPatience)) out.push_back(std::move(one));
  return out;
}

Verdicts probe_calls(const train::RunView& run, Depth depth) {
  if (!has_tools(run) || run.plan.acting.max_tool_calling_iterations == 0) return {};
  if (!run.sampled().tools->environments.empty() && calls_the_caller(run.plan)) return {};
  const bool deep = depth == Depth::kDeep;
  const std::int64_t tokens =
      std::min(deep ? kDeepTokens : kTurnTokens, run.plan.policy.max_completion_length);
  Sampler sampler(run, tokens);
  const std::vector<std::size_t> places =
      draw_rows(run.sampled().train_prompts, deep ? kDeepPrompts : kCallPrompts);
  const auto start = base::Clock::now();
  FirstTurns found;
  for (std::size_t first = 0; first < places.size(); first += kTurnsAtOnce) {
    const std::size_t last = std::min(places.size(), first + kTurnsAtOnce);
    sampler.ask({places.begin() + static_cast<std::ptrdiff_t>(first),
                 places.begin() + static_cast<std::ptrdiff_t>(last)},
                found);
    // One call says that it can.
    if ((!deep && found.calling > 0) || base::seconds_since(start) > (deep ? kDeepSeconds : kSamplingSeconds))
      break;
  }
  return {judge(found, tokens)};
}

}  // namespace hone::doctor
