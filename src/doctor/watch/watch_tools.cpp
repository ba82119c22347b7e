#include "doctor/watch/watch_tools.h"

#include <algorithm>
#include <cmath>

#include "base/strings/plural.h"
#include "doctor/number_format.h"
#include "doctor/watch/watch_limits.h"

namespace hone::doctor {

namespace {

using base::Level;

constexpr double kEqualRewards = 1e-9;  // of rewards and advantages
constexpr std::size_t kCallBytes = 160;

std::string text_of(const train::CallFacts& call) {
  return call.name + excerpt(call.arguments, kCallBytes);
}

// The sum of its rewards; NaN: no function scored it.
double total_of(const train::CompletionFacts& one) {
  double out = 0;
  bool scored = false;
  for (const double value : one.rewards) {
    if (std::isnan(value)) continue;
    out += value;
    scored = true;
  }
  return scored ? out : std::nan("");
}

bool is_dead(const train::CompletionFacts& one) {
  return std::abs(one.advantage) < kEqualRewards;
}

bool same_calls(const train::CompletionFacts& a, const train::CompletionFacts& b) {
  return std::equal(
      a.calls.begin(), a.calls.end(), b.calls.begin(), b.calls.end(),
      [](const auto& x, const auto& y) { return x.name == y.name && x.arguments == y.arguments; });
}

bool calls_of(const base::Json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}

std::string of_completions(std::int64_t part, std::int64_t whole) {
  return std::to_string(part) + " of " + base::counted(whole, "completion");
}

}  // namespace

void ToolWatch::Batch::add(const Batch& other) {
  samples += other.samples;
  calling += other.calling;
  calls += other.calls;
  unparsed += other.unparsed;
  unread += other.unread;
  capped += other.capped;
  repeating += other.repeating;
  groups += other.groups;
  dead += other.dead;
  alike += other.alike;
  alike_at_top += other.alike_at_top;
  sampling += other.sampling;
  waiting += other.waiting;
  for (const auto& [name, one] : other.tools) {
    tools[name].calls += one.calls;
    tools[name].failed += one.failed;
  }
}

void ToolWatch::add_completion(const train::CompletionFacts& one, Batch& to) {
  to.samples += 1;
  to.calling += one.calls.empty() ? 0 : 1;
  to.calls += std::ssize(one.calls);
  ever_called_ = ever_called_ || !one.calls.empty();
  std::map<std::string, std::int64_t> failing;
  bool repeats = false, parsed = false;
  for (const train::CallFacts& call : one.calls) {
    OfTool& tool = to.tools[call.name];
    tool.calls += 1;
    if (!call.failed) continue;
    tool.failed += 1;
    if (++failing[call.name + " " + call.arguments] < limits::kSameFailingCalls) continue;
    repeats = true;
    repeated_ = text_of(call);
  }
  to.repeating += repeats ? 1 : 0;
  std::size_t read = 0;  // results
  for (const base::Json& message : one.messages.is_array() ? one.messages : base::Json::array()) {
    if (!message.is_object()) continue;
    parsed = parsed || calls_of(message);
    if (message.value("role", "") != "tool") continue;
    if (read < one.calls.size() && one.calls[read].failed && message.contains("content"))
      errors_[one.calls[read].name] =
          excerpt(message["content"].is_string() ? message["content"].get<std::string>()
                                                 : base::dump_json(message["content"]),
                  kCallBytes);
    read += 1;
  }
  const bool gave_up = setup_.failures_to_stop > 0 && !one.calls.empty() && one.calls.back().failed;
  const bool asks = one.messages.is_array() && !one.messages.empty() && calls_of(one.messages.back());
  if (read < one.calls.size()) {
    to.unread += gave_up ? 0 : 1;
  } else {
    to.capped += asks && setup_.most_rounds >= 0 ? 1 : 0;
  }
  if (one.opens_call && !parsed && !one.truncated) {
    to.unparsed += 1;
    unparsed_ = excerpt(one.completion, kCallBytes, /*from_end=*/true);
  }
}

void ToolWatch::add_groups(const train::RolloutFacts& rollouts, Batch& to) {
  for (const train::CompletionFacts& one : rollouts.completions) {
    const double total = total_of(one);
    if (std::isnan(total)) continue;
    lowest_ = seen_reward_ ? std::min(lowest_, total) : total;
    highest_ = seen_reward_ ? std::max(highest_, total) : total;
    seen_reward_ = true;
  }
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(1, setup_.group_size));
  for (std::size_t begin = 0; size > 1 && begin + size <= rollouts.completions.size(); begin += size) {
    const auto first = rollouts.completions.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = first + static_cast<std::ptrdiff_t>(size);
    to.groups += 1;
    if (!std::all_of(first, last, is_dead)) continue;
    to.dead += 1;
    if (first->calls.empty() ||
        !std::all_of(first, last, [&](const auto& one) { return same_calls(one, *first); }))
      continue;
    to.alike += 1;
    to.alike_at_top += lowest_ < highest_ && total_of(*first) >= highest_ - kEqualRewards ? 1 : 0;
  }
}

ToolWatch::Batch ToolWatch::sums_of(const train::RolloutFacts& rollouts) {
  Batch out{.sampling = rollouts.sampling_seconds, .waiting = rollouts.tool_wait_seconds};
  for (const train::CompletionFacts& one : rollouts.completions) add_completion(one, out);
  add_groups(rollouts, out);
  return out;
}

Findings ToolWatch::see(const train::RolloutFacts& rollouts) {
  if (rollouts.completions.empty()) return {};  // an evaluation's warnings
  batches_.push_back(sums_of(rollouts));
  if (std::ssize(batches_) > limits::kBatchesInWindow) batches_.pop_front();
  Batch all;
  for (const Batch& one : batches_) all.add(one);
  Findings out;
  if (std::ssize(batches_) < limits::kBatchesToSpeak || all.samples < limits::kSamplesToWarn) return out;
  judge_calling(all, out);
  judge_failures(all, out);
  judge_loops(all, out);
  judge_room(all, out);
  judge_waiting(all, out);
  judge_groups(all, out);
  return out;
}

// TOOL-07 where calls are begun and not read, else TOOL-06.
void ToolWatch::judge_calling(const Batch& all, Findings& out) const {
  if (all.unparsed > all.calling && share(all.unparsed, all.samples) > limits::kToolShare) {
    add_finding(
        out,
        {.code = "TOOL-07",
         .level = Level::kWarn,
         .what = percent(share(all.unparsed, all.samples)) +
                 " of the completions begin a call that cannot be read: it is plain text, and no tool runs",
         .evidence = of_completions(all.unparsed, all.samples) + ", with calls that were read in " +
                     std::to_string(all.calling) + "; one ends: \"" + unparsed_ + "\"",
         .cause =
             "suspected: the model writes calls in another form than its chat template's, or JSON that does not parse",
         .fix =
             "compare the completion above with the form of the chat template; show the form in the prompt, or train "
             "with SFT on dialogues with calls first",
         .cost = "completions that wanted a tool and got none"});
    return;
  }
  if (all.calls > 0 || all.unparsed > 0 || setup_.most_rounds == 0) return;
  add_finding(
      out,
      {.code = "TOOL-06",
       .level = Level::kWarn,
       .what = ever_called_ ? "the model does not call its tools any more"
                            : "the model has not called a tool yet",
       .evidence = "no call in " + base::counted(all.samples, "completion") + " of " +
                   base::counted(std::ssize(batches_), "generation batch", "generation batches"),
       .cause = ever_called_ ? "suspected: the reward is as high without calls, which are longer and may fail"
                             : "suspected: a base model, or a prompt that does not ask for the tools",
       .fix = ever_called_
                  ? "reward what only a tool can tell, or remove the penalty on calls"
                  : "train with SFT on dialogues with calls first, or ask for the tools in the prompt",
       .cost = "what is never sampled is never learned: this is a run without tools"});
}

// TOOL-08
void ToolWatch::judge_failures(const Batch& all, Findings& out) const {
  for (const auto& [name, one] : all.tools) {
    if (one.calls < limits::kCallsToJudge || share(one.failed, one.calls) <= limits::kToolFailures) continue;
    const auto error = errors_.find(name);
    const bool unknown = error != errors_.end() && error->second.find("not found.") != std::string::npos &&
                         error->second.find("Tool " + name) != std::string::npos;
    add_finding(
        out,
        {.code = "TOOL-08",
         .level = Level::kWarn,
         .what = percent(share(one.failed, one.calls)) + " of the calls of " + name + " fail",
         .evidence = std::to_string(one.failed) + " of " + base::counted(one.calls, "call") +
                     (error == errors_.end() ? std::string() : "; one was answered: " + error->second),
         .cause = unknown ? "there is no tool of that name: the model makes it up"
                          : "suspected: arguments that the tool does not take, or a tool that is broken",
         .fix =
             unknown
                 ? "name the tools in the prompt, or give the tool that name"
                 : "call it by hand with the arguments of a completion (completions/); say in its docstring what it takes",
         .cost = "turns that teach nothing, in every completion"},
        name);
  }
}

// TOOL-09
void ToolWatch::judge_loops(const Batch& all, Findings& out) const {
  if (share(all.repeating, all.samples) > limits::kToolShare) {
    add_finding(
        out,
        {.code = "TOOL-09",
         .level = Level::kWarn,
         .what = percent(share(all.repeating, all.samples)) +
                 " of the completions make one failing call again and again",
         .evidence = of_completions(all.repeating, all.samples) + ", each at least " +
                     std::to_string(limits::kSameFailingCalls) + " times; one: " + repeated_,
         .cause = "the model does not take the error as a reason to call otherwise",
         .fix = setup_.failures_to_stop > 0
                    ? "a lower tool_failures_to_stop, and errors that say what to call instead"
                    : "tool_failures_to_stop: 3 ends such completions; let errors say what to call instead",
         .cost = "the tokens of these turns"},
        "repeated");
  }
  if (share(all.capped, all.samples) <= limits::kCutWarn || setup_.most_rounds <= 0) return;
  add_finding(out,
              {.code = "TOOL-09",
               .level = Level::kWarn,
               .what = percent(share(all.capped, all.samples)) +
                       " of the completions end with a call that is never answered",
               .evidence = of_completions(all.capped, all.samples) + " after " +
                           base::counted(setup_.most_rounds, "round") + " of calls",
               .cause = "max_tool_calling_iterations ends the dialogue before the answer",
               .fix = "max_tool_calling_iterations: " + std::to_string(2 * setup_.most_rounds) +
                      ", or say in the prompt how many calls there are",
               .cost = "completions without an answer"},
              "cap");
}

// TOOL-03
void ToolWatch::judge_room(const Batch& all, Findings& out) const {
  if (share(all.unread, all.samples) <= limits::kToolShare) return;
  add_finding(
      out,
      {.code = "TOOL-03",
       .level = Level::kWarn,
       .what = percent(share(all.unread, all.samples)) +
               " of the completions end at a call whose result does not fit",
       .evidence = of_completions(all.unread, all.samples) +
                   "; the tools had been called: an environment's state and reward "
                   "know calls that the dialogue does not show",
       .cause = "results and turns are longer than max_completion_length (" +
                std::to_string(setup_.most_tokens) + ")",
       .fix = "a higher max_completion_length, a max_tool_result_tokens, or tools that answer more briefly",
       .cost = "completions without an answer"});
}

// TOOL-10
void ToolWatch::judge_waiting(const Batch& all, Findings& out) const {
  if (all.sampling < limits::kSecondsOfWaiting || all.waiting <= limits::kToolWaiting * all.sampling) return;
  add_finding(
      out,
      {.code = "TOOL-10",
       .level = Level::kWarn,
       .what = percent(all.waiting / all.sampling) +
               " of the sampling time nothing is sampled: all completions wait for tools",
       .evidence = short_number(all.waiting) + " of " + short_number(all.sampling) + " s in " +
                   base::counted(std::ssize(batches_), "generation batch", "generation batches") + ", " +
                   base::counted(all.calls, "call"),
       .cause = "calls are slow, or more of them are made than tool_workers run at once",
       .fix =
           "a higher tool_workers, async tools where they wait for a network, a lower tool_timeout, a cache in the tool",
       .cost = percent(all.waiting / all.sampling) + " of the sampling time"});
}

// TOOL-11
void ToolWatch::judge_groups(const Batch& all, Findings& out) const {
  if (share(all.dead, all.groups) <= limits::kDeadShareWarn ||
      share(all.alike, all.dead) <= limits::kDeadShareWarn)
    return;
  const bool solved = share(all.alike_at_top, all.alike) > limits::kCeilingRate;
  add_finding(
      out,
      {.code = "TOOL-11",
       .level = solved ? Level::kNote : Level::kWarn,
       .what = percent(share(all.alike, all.groups)) +
               " of the groups are dead, and all their completions make the same calls",
       .evidence = std::to_string(all.alike) + " of " + base::counted(all.dead, "dead group") + "; " +
                   base::counted(all.calls, "call") + " in " + base::counted(all.samples, "completion"),
       .cause =
           solved
               ? "suspected: these prompts are solved"
               : "suspected: the tool gives the answer away or withholds it, so that the reward cannot differ",
       .fix =
           solved
               ? "harder prompts, where there are such"
               : "rows that one call does not decide, a reward that also sees the way, or a higher temperature",
       .cost = "groups without a gradient"});
}

void ToolWatch::reset_evidence() {
  batches_.clear();
}

}  // namespace hone::doctor
