// TOOL-05: what the run's rewards make of a dialogue. The same call is asked about three endings: the last turn says the right answer;
// it does not, but a tool's message does; nobody does.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/stopwatch.h"
#include "base/strings/plural.h"
#include "doctor/checks/check_format.h"
#include "doctor/probes/judge_tools.h"
#include "doctor/probes/rewards/reward_answers.h"

namespace hone::doctor {

using base::Json;
using base::Level;
using base::Verdict;

namespace {

constexpr std::size_t kDialogueRows = 8;
constexpr const char* kNobody = "I do not know.";
constexpr double kPaid = 0.5;  // of what the right answer earns above no answer

struct Dialogue {
  Texts tool, last;  // what the tool answered and what the last turn says; one a row
};

class DialogueTrial {
 public:
  DialogueTrial(rewards::Reward& reward, const RewardRows& rows, const TriedTool& call,
                const text::Tokenizer& tokenizer)
      : reward_(reward), rows_(rows), call_(call), tokenizer_(tokenizer) {}

  // The mean score; kNone: none, and error() may say why.
  double ask(const Dialogue& all) {
    rewards::Request request = rows_.request(all.last);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      request.completions[i] = messages(all.tool[i], all.last[i]);
      request.completion_ids[i] = tokenizer_.encode(all.tool[i] + "\n" + all.last[i], false).ids;
    }
    try {
      const rewards::Scores scores = reward_.score(request);
      if (scores.broken) error_ = scores.broken->found;
      if (error_.empty() && !scores.failures.empty()) error_ = scores.failures.front().what;
      Answered out{.values = scores.values};
      set_mean(out);
      return out.mean;
    } catch (const base::UserError& error) {
      error_ = error.text().found;
      return rewards::kNone;
    }
  }
  const std::string& error() const { return error_; }

 private:
  Json messages(const std::string& tool, const std::string& last) const {
    const Json function = {{"name", call_.name}, {"arguments", call_.arguments}};
    return Json::array({{{"role", "assistant"},
                         {"content", ""},
                         {"tool_calls", Json::array({{{"type", "function"}, {"function", function}}})}},
                        {{"role", "tool"}, {"name", call_.name}, {"content", tool}},
                        {{"role", "assistant"}, {"content", last}}});
  }

  rewards::Reward& reward_;
  const RewardRows& rows_;
  const TriedTool& call_;
  const text::Tokenizer& tokenizer_;
  std::string error_;
};

// What a reward paid for the form of the right answer that it pays best.
struct Paid {
  double said = rewards::kNone, by_tool = rewards::kNone, nobody = rewards::kNone, alone = rewards::kNone;
  std::string form, error;
};

Paid paid_by(rewards::Reward& reward, const RewardRows& rows, const std::string& gold, const TriedTool& call,
             const text::Tokenizer& tokenizer) {
  DialogueTrial trial(reward, rows, call, tokenizer);
  const Texts nobody(rows.size(), kNobody), nothing(rows.size(), "ok");
  Paid out{.nobody = trial.ask({nothing, nobody})};
  for (const auto& [form, texts] : rows.gold_answers(gold)) {
    const double said = trial.ask({nothing, texts});
    if (std::isnan(out.said) || said > out.said) out.said = said, out.form = form;
    const double by_tool = trial.ask({texts, nobody});
    if (std::isnan(out.by_tool) || by_tool > out.by_tool) out.by_tool = by_tool;
    const Answered alone = ask(reward, rows, form, texts);
    if (alone.error.empty() && (std::isnan(out.alone) || alone.mean > out.alone)) out.alone = alone.mean;
  }
  const Answered junk = ask(reward, rows, "junk", nobody);
  if (junk.error.empty()) out.alone -= junk.mean;  // what a right answer earns without a dialogue
  // Errors of a dialogue alone: those of any call are P8's.
  if (junk.error.empty() && junk.failures.empty()) out.error = trial.error();
  return out;
}

Verdict judge(const std::string& name, const Paid& paid) {
  Verdict out{.code = "TOOL-05"};
  out.what = "reward " + name + " pays what the last turn says";
  out.evidence = format::number(paid.said) + " for the right answer in it, " + format::number(paid.by_tool) +
                 " for one in a tool's message only, " + format::number(paid.nobody) + " for none";
  const double worth = paid.said - paid.nobody;
  if (!paid.error.empty()) {
    out.level = Level::kWarn;
    out.what = "reward " + name + " cannot read a dialogue with a tool";
    out.evidence = paid.error;
    out.cause =
        "with tools a completion is a list of several messages: calls, what the tools answered, the last answer";
    out.fix = "read completion[-1][\"content\"], and expect messages of the role tool";
    out.cost = "completions that call are not scored";
  } else if (paid.by_tool - paid.nobody > kPaid * std::max(worth, 1e-9) && paid.by_tool > paid.nobody) {
    out.level = Level::kWarn;
    out.what = "reward " + name + " takes what a tool answers for the model's answer";
    out.cause = "it reads all messages of a completion, those of the role tool too";
    out.fix = "read the last message of the role assistant: completion[-1][\"content\"]";
    out.cost = "the model learns to call, and not to answer";
  } else if (worth <= 0 && paid.alone > 0) {
    out.level = Level::kWarn;
    out.what = "reward " + name + " does not see the answer behind a call";
    out.evidence += "; a right answer without a call earns " + format::number(paid.alone) + " more than none";
    out.cause = "it reads the first message of a completion, which is the call";
    out.fix = "read the last message: completion[-1][\"content\"]";
    out.cost = "the model learns not to call";
  }
  return out;
}

}  // namespace

Verdicts judge_dialogue_rewards(const train::RunView& run, double patience) {
  const train::SampledData& data = run.sampled();
  const std::string gold = format::gold_column(data.train_prompts);
  if (gold.empty() || data.rewards.empty()) return {};
  const RewardRows rows(run, data.train_prompts, kDialogueRows);
  if (rows.size() == 0) return {};
  const std::string& environment = data.tools->environment_of(rows.row(0));
  const std::vector<tools::Tool>& tools = data.tools->pool->tools(environment);
  if (tools.empty()) return {};
  const TriedTool call{.name = tools.front().name, .arguments = smallest_arguments(tools.front().schema)};
  const auto start = base::Clock::now();
  Verdicts out;
  for (const auto& reward : data.rewards) {
    if (base::seconds_since(start) > patience) break;
    out.push_back(judge(reward->name(), paid_by(*reward, rows, gold, call, run.text->tokenizer)));
    reward->reset();
  }
  return out;
}

}  // namespace hone::doctor
