#include "doctor/probes/rewards/reward_forms.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "doctor/checks/check_format.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr double kFarBeyond = 2;  // of max_completion_length

}  // namespace

bool is_of_row(const std::vector<Answered>& calls) {
  return std::all_of(calls.begin(), calls.end(), [&](const Answered& one) {
    return one.values == calls.front().values && one.none == 0 && one.error.empty();
  });
}

Verdict judge_one_score(const AskedForms& asked, const RewardRows& rows, const std::string& reward,
                        const std::string& compared, bool only) {
  const bool of_row = asked.lowest < asked.highest;
  Verdict out{.code = "RL-02", .level = only ? Level::kWarn : Level::kNote};
  out.what = reward +
             (of_row ? " gives every answer to a prompt the same score"
                     : " gives every answer " + format::number(asked.highest)) +
             ": right ones, empty ones and junk";
  out.evidence =
      format::counted(static_cast<std::int64_t>(asked.calls.size()), "kind of answers", "kinds of answers") +
      " for " + format::counted(static_cast<std::int64_t>(rows.size()), "row") +
      (of_row ? ", from " + format::number(asked.lowest) + " to " + format::number(asked.highest)
              : ", each " + format::number(asked.highest));
  out.cause = only ? "suspected: the function does not look at the completions"
                   : "the function does not tell these answers apart";
  if (of_row) {
    out.cause = "the function looks at the prompt or at a column, and not at the completion";
  } else if (only && !compared.empty()) {
    out.cause += ", or it cannot parse the column " + compared + " (`" +
                 format::shown(format::column_text(rows.row(0).columns, compared).value_or("null")) +
                 "`) and gives a default";
  }
  out.not_this = of_row ? "a constant: other rows have other scores"
                        : "a pattern that never matches: that would give a lowest score, 0 or less";
  out.fix = "let it return a score for each completion; hone reward-test shows its scores answer by answer";
  out.cost = only ? "every group has equal rewards, so that every advantage and every gradient is 0"
                  : "it adds the same to every sample of a group, which changes no advantage";
  return out;
}

std::optional<Verdict> judge_room(const AskedForms& asked, const RewardRows& rows, std::int64_t most_tokens,
                                  const std::string& reward) {
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  std::string text;
  for (std::size_t k = 0; k < asked.calls.size(); ++k) {
    const Answered& one = asked.calls[k];
    for (std::size_t i = 0; i < std::min(one.values.size(), asked.texts[k].size()); ++i) {
      if (std::isnan(one.values[i]) || one.values[i] <= asked.lowest) continue;
      if (one.kind == "long junk") return std::nullopt;  // it pays for length, in whatever words
      if (one.kind == kGoldProgram) return std::nullopt;
      const std::int64_t tokens = rows.tokens(asked.texts[k][i]);
      if (tokens <= most_tokens) return std::nullopt;
      if (tokens < shortest) text = asked.texts[k][i];
      shortest = std::min(shortest, tokens);
    }
  }
  if (text.empty()) return std::nullopt;
  // A form that was not tested may be somewhat shorter.
  const bool far = static_cast<double>(shortest) >= kFarBeyond * static_cast<double>(most_tokens);
  Verdict out{.code = "RL-03", .level = far ? Level::kWarn : Level::kNote};
  out.what = reward + " pays for no tested answer of at most " + format::counted(most_tokens, "token") +
             ", which is max_completion_length";
  out.evidence = "the shortest one that earns more than " + format::number(asked.lowest) + " has " +
                 std::to_string(shortest) + " tokens: `" + format::shown(text) + "`";
  out.cause = "suspected: the form that it requires does not fit a completion";
  out.fix = "max_completion_length: " + std::to_string(4 * shortest) + ", or a reward that needs less";
  out.cost = "rewards of " + format::number(asked.lowest) + " for every completion, and dead groups";
  return out;
}

std::optional<Verdict> judge_whole_text(const AskedForms& asked, const std::string& reward,
                                        const std::string& column) {
  if (asked.golds < 2 || asked.calls.front().kind != kWhole || !(asked.highest > asked.lowest))
    return std::nullopt;
  const Answered& whole = asked.calls.front();
  if (!(whole.mean > asked.lowest)) return std::nullopt;
  for (std::size_t k = 1; k < asked.golds; ++k) {
    if (asked.texts[k].front().empty() || asked.calls[k].mean != asked.lowest) return std::nullopt;
  }
  Verdict out{.code = "RL-04", .level = Level::kWarn};
  out.what = reward + " pays for the whole text of the column " + column + " (" + format::number(whole.mean) +
             "), and for no form of the answer at its end (" + format::number(asked.lowest) + ")";
  out.evidence = "`" + format::shown(asked.texts.front().front()) + "` against `" +
                 format::shown(asked.texts[1].front()) + "` and " + std::to_string(asked.golds - 2) +
                 " other forms of it";
  out.cause =
      "the column holds a solution that ends in its answer after ####, and the reward compares the whole of it";
  out.fix = "keep the answer after #### only in the data, or let the reward compare what stands there";
  out.cost = "no completion repeats a solution word for word: rewards of " + format::number(asked.lowest);
  return out;
}

Texts whole_numbers(const RewardRows& rows, const std::string& column) {
  Texts out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string text = format::column_text(rows.row(i).columns, column).value_or("");
    const bool is_float = text.size() > 2 && text.ends_with(".0") &&
                          text.find_first_not_of("-0123456789.") == std::string::npos;
    if (!is_float) return {};
    out.push_back(text.substr(0, text.size() - 2));
  }
  return out;
}

std::optional<Verdict> judge_whole_numbers(const Answered& best, const Answered& whole, const Texts& texts,
                                           const std::string& reward, const std::string& column) {
  if (texts.empty() || !(whole.mean < best.mean)) return std::nullopt;
  Verdict out{.code = "RL-04", .level = Level::kWarn};
  out.what = reward + " pays " + format::number(best.mean) + " for " + texts.front() + ".0, and " +
             format::number(whole.mean) + " for " + texts.front();
  out.evidence = "in each of " + format::counted(static_cast<std::int64_t>(texts.size()), "row") +
                 " that was asked the column " + column + " has a whole number written as a float";
  out.cause = "a column of numbers with a missing value: pandas and CSV readers make floats of such columns";
  out.fix = "write the answers as whole numbers, or compare numbers in the reward";
  out.cost = "right answers without a reward";
  return out;
}

}  // namespace hone::doctor
