#include "rewards/math/accuracy_reward.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/strings/pattern.h"
#include "rewards/math/answer.h"
#include "rewards/math/compare.h"

namespace hone::rewards {

namespace {

using base::to_code_points;
using base::to_utf8;

// What follows the last of the first delimiter that occurs; all of it where there are none. Empty: none occurs.
std::optional<std::string> after_reasoning(const std::string& text,
                                           const std::vector<std::string>& delimiters) {
  if (delimiters.empty()) return text;
  for (const std::string& delimiter : delimiters) {
    const std::size_t last = text.rfind(delimiter);
    if (last != std::string::npos) return text.substr(last + delimiter.size());
  }
  return std::nullopt;
}

// Scores and TRL's extra columns.
Scores judge(const Request& request, const std::string& name, const std::string& column, bool lenient,
             const std::vector<std::string>& delimiters, AccuracyRules rules = AccuracyRules::kTrl) {
  const auto gold = column_texts(request, column, name);
  const auto texts = completion_texts(request, name);
  Scores out;
  std::vector<base::Json> gold_answers;
  std::vector<base::Json> gold_parsed;
  std::vector<base::Json> answer_parsed;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto text = after_reasoning(texts[i], delimiters);
    AccuracyResult result{false, "[incomplete reasoning]", "[incomplete reasoning]"};
    if (text) {
      result = gold[i] ? judge_accuracy(column == "solution" ? *gold[i] : after_hashes(*gold[i]), *text,
                                        lenient, rules)
                       : AccuracyResult{std::nullopt, "[unparseable]", "[skipped]"};
    }
    out.values.push_back(!result.correct ? kNone : *result.correct ? 1 : 0);
    gold_answers.emplace_back(gold[i] ? base::Json(*gold[i]) : base::Json());
    gold_parsed.emplace_back(result.gold);
    answer_parsed.emplace_back(result.answer);
  }
  out.extra = {{column, std::move(gold_answers)},
               {"gold_parsed", std::move(gold_parsed)},
               {"answer_parsed", std::move(answer_parsed)}};
  return out;
}

std::string without_blanks(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string shown(const std::vector<MathCandidate>& all, const char* none) {
  return all.empty() ? none : to_utf8(all.front().text);
}

}  // namespace

std::string after_hashes(const std::string& gold) {
  const std::size_t at = gold.rfind("####");
  return at == std::string::npos ? gold : gold.substr(at + 4);
}

AccuracyResult judge_accuracy(const std::string& gold, const std::string& completion, bool lenient,
                              AccuracyRules rules) {
  const bool trl = rules == AccuracyRules::kTrl;
  const bool swapped = rules == AccuracyRules::kOpenR1Latex;
  const AnswerRules gold_rules = trl       ? AnswerRules::kGold
                                 : swapped ? AnswerRules::kFirstLatexGold
                                           : AnswerRules::kFirstGold;
  const auto gold_answers = math_answers(to_code_points(gold), gold_rules);
  if (gold_answers.empty()) return {std::nullopt, "[unparseable]", "[skipped]"};
  const std::u32string text = to_code_points(completion);
  auto answers = math_answers(text, trl ? AnswerRules::kCompletion : AnswerRules::kFirstCompletion);
  if (answers.empty() && lenient)
    answers = math_answers(to_code_points(after_hashes(completion)), AnswerRules::kGold);
  bool correct = false;
  for (const auto& one : gold_answers)
    for (const auto& other : answers)
      correct = correct || (swapped ? same_answer(other, one) : same_answer(one, other));
  return {correct, shown(gold_answers, "[unparseable]"), shown(answers, "[unparseable]")};
}

Scores accuracy_scores(const Request& request, const std::string& name, const std::string& column,
                       AccuracyRules rules, bool lenient) {
  return judge(request, name, column, lenient, {}, rules);
}

namespace {

std::unique_ptr<Reward> accuracy_reward(Parameters parameters) {
  const std::string name = parameters.text("name", "accuracy_reward");
  const std::string column = parameters.text("column", "solution");
  const bool lenient = parameters.boolean("lenient", false);
  parameters.choice("engine", {"native", "math_verify"});
  parameters.finish();
  return make_reward(name, [=](const Request& request) { return judge(request, name, column, lenient, {}); });
}

// TRL's parameter is a list: here its texts are cut at commas, or at newlines where one holds a comma. `delimiter` is one.
std::vector<std::string> reasoning_delimiters(Parameters& parameters) {
  if (!parameters.has("reasoning_delimiters")) return {parameters.text("delimiter", "</think>")};
  const std::string list = parameters.text("reasoning_delimiters", "");
  if (parameters.has("delimiter"))
    parameters.fail("delimiter", "one of delimiter and reasoning_delimiters", "both");
  const char cut = list.find('\n') == std::string::npos ? ',' : '\n';
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(cut, begin), list.size());
    const std::string one = without_blanks(list.substr(begin, end - begin));
    if (one.empty())
      parameters.fail("reasoning_delimiters", "texts between commas, none of them empty", "'" + list + "'");
    out.push_back(one);
    begin = end + 1;
  }
  return out;
}

std::unique_ptr<Reward> reasoning_accuracy_reward(Parameters parameters) {
  const std::string name = parameters.text("name", "reasoning_accuracy_reward");
  const std::string column = parameters.text("column", "solution");
  const bool lenient = parameters.boolean("lenient", false);
  const std::vector<std::string> delimiters = reasoning_delimiters(parameters);
  parameters.choice("engine", {"native", "math_verify"});
  parameters.finish();
  return make_reward(
      name, [=](const Request& request) { return judge(request, name, column, lenient, delimiters); });
}

std::unique_ptr<Reward> cosine_scaled_reward(Parameters parameters) {
  const std::string name = parameters.text("name", "cosine_scaled_reward");
  const std::string column = parameters.text("column", "solution");
  const bool lenient = parameters.boolean("lenient", false);
  const auto longest =
      static_cast<double>(parameters.needed_integer("max_len", 1, "get_cosine_scaled_reward(max_len=256)"));
  const double min_wrong = parameters.number("min_value_wrong", -1);
  const double max_wrong = parameters.number("max_value_wrong", -0.5);
  const double min_correct = parameters.number("min_value_correct", 0.5);
  const double max_correct = parameters.number("max_value_correct", 1);
  parameters.finish();
  return make_reward(name, [=](const Request& request) {
    Scores out = judge(request, name, column, lenient, {});
    out.extra.clear();  // TRL calls accuracy_reward without log_extra here
    for (std::size_t i = 0; i < out.values.size(); ++i) {
      if (std::isnan(out.values[i])) continue;
      const double progress =
          std::min(static_cast<double>(request.completion_ids.at(i).size()) / longest, 1.0);
      const bool correct = out.values[i] == 1;
      const double low = correct ? min_correct : max_wrong;  // the bounds of a wrong one change places
      const double high = correct ? max_correct : min_wrong;
      out.values[i] = low + 0.5 * (high - low) * (1.0 + std::cos(progress * std::numbers::pi));
    }
    return out;
  });
}

}  // namespace

std::span<const BuiltInReward> math_rewards() {
  static constexpr BuiltInReward kRewards[] = {
      {"accuracy_reward", &accuracy_reward, "solution", "trl.rewards.accuracy_reward"},
      {"reasoning_accuracy_reward", &reasoning_accuracy_reward, "solution",
       "trl.rewards.reasoning_accuracy_reward"},
      {"get_cosine_scaled_reward", &cosine_scaled_reward, "solution"},
  };
  return kRewards;
}

}  // namespace hone::rewards
