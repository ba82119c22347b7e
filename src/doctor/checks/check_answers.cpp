// RL-03 without sampling: a completion that cannot hold the data's own answer earns nothing.
#include <algorithm>
#include <map>
#include <optional>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "doctor/probes/drawn_rows.h"
#include "rewards/math/accuracy_reward.h"
#include "rewards/open_reward.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr std::size_t kRowsLooked = 4096;
constexpr std::int64_t kRowsOfOneAnswer = 20;
constexpr double kOneAnswer = 0.95;       // of the rows that have an answer
constexpr std::size_t kShortAnswer = 40;  // bytes: an answer and not a solution

std::int64_t at_share(std::vector<std::int64_t> sorted, double share) {
  std::sort(sorted.begin(), sorted.end());
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(share * last + 0.5)];
}

// One of our own rewards compares with the column, which is known of no function of the user.
bool is_compared(const train::RunView& run, const std::string& column) {
  const train::SampledData& data = run.sampled();
  for (std::size_t i = 0; i < std::min(data.columns.size(), run.plan.policy.reward_funcs.size()); ++i) {
    const std::vector<std::string>& needed = data.columns[i];
    if (!rewards::is_user_code(run.plan.policy.reward_funcs[i]) &&
        std::find(needed.begin(), needed.end(), column) != needed.end())
      return true;
  }
  return false;
}

// DATA-13: a column of answers that has one value in nearly all rows is no answer to its prompts.
std::optional<Verdict> one_answer(const train::PolicyPrompts& prompts, const std::vector<std::size_t>& drawn,
                                  const std::string& column) {
  std::map<std::string, std::int64_t> counts;
  std::int64_t all = 0;
  for (const std::size_t i : drawn) {
    const auto text = format::column_text(prompts.rows[i].columns, column);
    if (!text || text->empty()) continue;
    counts[*text] += 1;
    all += 1;
  }
  if (all < kRowsOfOneAnswer) return std::nullopt;
  const auto most = std::max_element(counts.begin(), counts.end(), [](const auto& one, const auto& other) {
    return one.second < other.second;
  });
  if (static_cast<double>(most->second) < kOneAnswer * static_cast<double>(all)) return std::nullopt;
  Verdict out{.code = "DATA-13", .level = Level::kWarn};
  out.what = "the column " + column + " is `" + format::shown(most->first) + "` in " +
             std::to_string(most->second) + " of " + format::counted(all, "row");
  out.evidence = "different values: " + std::to_string(counts.size());
  out.cause = "suspected: a default, or a column that was filled with one row's value";
  out.fix = "the right answer of each row in its column " + column;
  out.cost = "the run learns to say this whatever is asked";
  return out;
}

}  // namespace

Verdicts check_answers(const train::RunView& run) {
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
    out.level = every && is_compared(run, column) ? Level::kFail : Level::kWarn;
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
  Verdicts found = {out};
  if (auto one = one_answer(prompts, drawn, column)) found.push_back(*std::move(one));
  return found;
}

}  // namespace hone::doctor
