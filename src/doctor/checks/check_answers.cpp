// RL-03 without sampling: a completion that cannot hold the data's own answer earns nothing.
#include <algorithm>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "doctor/probes/drawn_rows.h"
#include "rewards/math/accuracy_reward.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr std::size_t kRowsLooked = 4096;
constexpr std::size_t kShortAnswer = 40;  // bytes: an answer and not a solution

std::int64_t at_share(std::vector<std::int64_t> sorted, double share) {
  std::sort(sorted.begin(), sorted.end());
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(share * last + 0.5)];
}

}  // namespace

Verdicts check_answers(const train::OpenedRun& run) {
  const train::PolicyPrompts& prompts = run.sampled().train_prompts;
  const std::string column = format::gold_column(prompts);
  if (column.empty() || !run.plan.policy.replay.empty()) return {};
  std::vector<std::int64_t> whole, answers;  // tokens; `answers` of those that are no more than that
  const std::vector<std::size_t> drawn = draw_rows(prompts, kRowsLooked);
  for (const std::size_t i : drawn) {
    const auto text = format::column_text(prompts.rows[i].columns, column);
    if (!text) continue;
    const auto length = [&](const std::string& of) {
      return static_cast<std::int64_t>(run.text->tokenizer.encode(of, false).ids.size());
    };
    whole.push_back(length(*text));
    const std::string answer = rewards::after_hashes(*text);
    if (answer.size() <= kShortAnswer) answers.push_back(length(answer));
  }
  if (whole.empty()) return {};
  const std::int64_t cap = run.plan.policy.max_completion_length;
  const std::int64_t p50 = at_share(whole, 0.5), p95 = at_share(whole, 0.95);
  Verdict out{.code = "RL-03"};
  out.evidence = "column " + column + ": p50 " + std::to_string(p50) + ", p95 " + std::to_string(p95) +
                 " tokens; max_completion_length " + std::to_string(cap);
  out.what = "the data's own answers fit max_completion_length " + std::to_string(cap);
  // Even the bare answers of most rows need more room than there is. Of every row it is a proof.
  if (2 * answers.size() >= whole.size() && at_share(answers, 0.5) > cap) {
    const bool every = drawn.size() == prompts.rows.size() && answers.size() == drawn.size() &&
                       *std::min_element(answers.begin(), answers.end()) > cap;
    out.level = every ? Level::kFail : Level::kWarn;
    out.what = (every ? "no completion of " : "most answers do not fit a completion of ") +
               format::counted(cap, "token") + (every ? " can hold the answer" : "");
    out.cause = "max_completion_length is below the length of the data's answers (p50 " +
                format::counted(at_share(answers, 0.5), "token") + ")";
    out.fix = "max_completion_length: " + std::to_string(4 * std::max<std::int64_t>(p95, 4));
    out.cost = every ? "all rewards 0, all groups dead" : "rewards of 0 and dead groups for these rows";
  } else if (p50 > cap) {
    out.level = Level::kWarn;
    out.what = "more than half of the data's own answers are longer than max_completion_length " +
               std::to_string(cap);
    out.cause = "suspected: completions will be cut before their answer";
    out.fix = "max_completion_length: " + std::to_string(p95) + ", or ask for shorter answers in the prompt";
    out.cost = "completions that are cut earn nothing";
  }
  return {out};
}

}  // namespace hone::doctor
