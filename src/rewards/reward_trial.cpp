#include "rewards/reward_trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <type_traits>

#include "base/error.h"
#include "base/strings/plural.h"
#include "rewards/code/code_reward.h"
#include "rewards/math/accuracy_reward.h"

namespace hone::rewards {

namespace {

using base::Json;
using Texts = std::vector<std::string>;

constexpr std::size_t kFailuresShown = 3;
constexpr double kSlow = 1;       // seconds a call
constexpr double kPaidFor = 0.5;  // of what a right answer earns more than junk
constexpr std::array kGoldNames = {"answer", "solution", "ground_truth", "gold",
                                   "target", "label",    "completion"};
constexpr const char* kJunk = "lorem ipsum qx zzyx blah blah, und so weiter";

std::string strip_blanks(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  const auto end = text.find_last_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::vector<std::int32_t> word_ids(const std::string& text) {
  std::vector<std::int32_t> out;
  std::istringstream words(text);
  for (std::string word; words >> word;)
    out.push_back(static_cast<std::int32_t>(std::hash<std::string>{}(word) & 0x7FFFFFFFU));
  return out;
}

std::string short_score(double value) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.3g", value);
  return out.data();
}

std::string find_gold_column(const std::vector<std::string>& needed, const Json& columns) {
  for (const char* const name : kGoldNames)
    if (std::ranges::find(needed, name) != needed.end()) return name;
  if (!needed.empty()) return needed.front();
  for (const char* const name : kGoldNames)
    if (columns.contains(name)) return name;
  return {};
}

// Half of the characters, never half of one.
std::string half(const std::string& text) {
  std::size_t size = text.size() / 2;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) --size;
  return text.substr(0, size);
}

std::string repeated(const std::string& text, std::int64_t words) {
  const auto each = std::max<std::int64_t>(1, static_cast<std::int64_t>(word_ids(text).size()));
  std::string out = text;
  for (std::int64_t i = each; i < words; i += each) out += " " + text;
  return out;
}

class Tester {
 public:
  Tester(Reward& reward, const TrialData& data) : reward_(reward), data_(data) { out_.name = reward.name(); }

  Trial run(const std::vector<std::string>& needed) {
    for (const std::string& column : needed)
      if (!data_.columns.contains(column))
        suspect("needs a column \"" + column + "\" that the data does not have");
    if (!out_.suspicious.empty()) return out_;
    const std::string column = find_gold_column(needed, data_.columns);
    if (!needed.empty()) out_.gold_column = column;
    try {
      if (!column.empty()) gold_answers(column);
      same("empty", "");
      same("junk", kJunk);
      judge();
      compare_groups(column);
    } catch (const base::UserError& error) {
      suspect(error.what());
    }
    return out_;
  }

 private:
  void suspect(const std::string& what) { out_.suspicious.push_back(what); }

  Request request(const Texts& completions) const {
    Request out;
    out.prompts = data_.prompts;
    out.columns = data_.columns;
    for (std::size_t i = 0; i < completions.size(); ++i) {
      const Json text = completions[i];
      out.completions.push_back(
          data_.prompts[i].is_array() ? Json::array({{{"role", "assistant"}, {"content", text}}}) : text);
      out.completion_ids.push_back(word_ids(completions[i]));
    }
    return out;
  }

  void score(const std::string& kind, const Texts& completions) {
    const Scores scores = reward_.score(request(completions));
    if (out_.printed.empty() && !scores.printed.empty()) out_.printed = scores.printed.front().text;
    TrialRow row{.kind = kind, .rows = static_cast<std::int64_t>(completions.size())};
    double sum = 0;
    for (const double value : scores.values) {
      if (std::isnan(value)) {
        ++row.none;
        continue;
      }
      sum += value;
      lowest_ = std::min(lowest_, value);
      highest_ = std::max(highest_, value);
    }
    if (row.none < row.rows) row.mean = sum / static_cast<double>(row.rows - row.none);
    row.failures = static_cast<std::int64_t>(scores.failures.size());
    for (const Failure& one : scores.failures)
      if (out_.failures.size() < kFailuresShown)
        out_.failures.push_back(kind + ", row " + std::to_string(one.sample) + ": " + one.what);
    if (scores.broken && !told_broken_) {
      told_broken_ = true;
      suspect(kind + ": " + base::format_error(*scores.broken));
    }
    seconds_.push_back(scores.seconds);
    out_.rows.push_back(row);
  }

  void same(const std::string& kind, const std::string& text) {
    score(kind, Texts(data_.prompts.size(), text));
  }

  Texts each(const Texts& texts, const auto& function) const {
    Texts out;
    for (const std::string& text : texts) out.push_back(function(text));
    return out;
  }

  // Of a column of test cases; empty: it is another one.
  Texts programs_of(const std::string& column) const {
    Texts out;
    for (const Json& one : data_.columns[column]) {
      const auto program = answer_by_table(one);
      if (!program) return {};
      out.push_back(*program);
    }
    return out;
  }

  // The gold in several forms, and what is made of the form that scores best.
  void gold_answers(const std::string& column) {
    Request all;
    all.completions.assign(data_.prompts.size(), "");
    all.columns = data_.columns;
    Texts texts;
    for (const auto& one : column_texts(all, column, out_.name))
      texts.push_back(one ? strip_blanks(after_hashes(*one)) : "");
    std::vector<std::pair<std::string, Texts>> forms = {
        {"gold", texts},
        {"gold in \\boxed{}", each(texts, [](const auto& text) { return "\\boxed{" + text + "}"; })},
        {"gold after ####", each(texts, [](const auto& text) { return "#### " + text; })},
        {"gold after <think>", each(texts, [](const auto& text) {
           return "<think>\nstep by step\n</think>\n\\boxed{" + text + "}";
         })}};
    if (Texts programs = programs_of(column); !programs.empty())
      forms = {{"a program that has the outputs of the tests", std::move(programs)}};
    std::size_t best = 0;
    for (std::size_t i = 0; i < forms.size(); ++i) {
      score(forms[i].first, forms[i].second);
      if (out_.rows[i].mean > out_.rows[best].mean || std::isnan(out_.rows[best].mean)) best = i;
    }
    best_ = out_.rows[best];
    const Texts& chosen = forms[best].second;
    score("gold cut in half", each(chosen, half));
    score("gold, repeated",
          each(chosen, [this](const auto& text) { return repeated(text, data_.long_words); }));
    Texts others = chosen;
    for (std::size_t i = 0; i < others.size(); ++i) {  // the next row whose gold is another
      for (std::size_t step = 1; step < texts.size(); ++step) {
        const std::size_t j = (i + step) % texts.size();
        if (texts[i] == texts[j]) continue;
        others[i] = chosen[j];
        differ_ = true;
        break;
      }
    }
    if (differ_) score("another row's gold", others);
  }

  // The first rows alone, beside the same rows in a batch.
  void compare_groups(const std::string& column) {
    constexpr std::size_t kRows = 4;
    const std::size_t n = std::min(kRows, data_.prompts.size());
    if (!reward_.takes_batch() || n < 2) return;
    Texts texts;
    for (std::size_t i = 0; i < n; ++i) {
      const Json* gold = column.empty() ? nullptr : &data_.columns[column][i];
      texts.push_back(gold != nullptr && gold->is_string() ? gold->get<std::string>()
                                                           : data_.prompts[i].dump());
    }
    const auto same = [](double a, double b) {
      return (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-9;
    };
    const Request whole = rows(request(texts), 0, n);
    const std::vector<double> together = reward_.score(whole).values;
    bool equal = true;
    for (std::size_t i = 0; i < n; ++i)
      equal = equal && same(reward_.score(rows(whole, i, i + 1)).values.at(0), together[i]);
    if (!equal && !std::ranges::equal(reward_.score(whole).values, together, same))
      return;  // it draws at random
    out_.safe_by_group = equal;
  }

  static Request rows(const Request& all, std::size_t begin, std::size_t end) {
    const auto part = [&](const auto& values) {
      return std::decay_t<decltype(values)>(values.begin() + static_cast<std::ptrdiff_t>(begin),
                                            values.begin() + static_cast<std::ptrdiff_t>(end));
    };
    Request out{.prompts = part(all.prompts),
                .completions = part(all.completions),
                .completion_ids = part(all.completion_ids)};
    for (const auto& [name, values] : all.columns.items()) {
      out.columns[name] = part(values.get_ref<const Json::array_t&>());
    }
    return out;
  }

  double mean(const std::string& kind) const {
    const auto found = std::ranges::find(out_.rows, kind, &TrialRow::kind);
    return found == out_.rows.end() ? kNone : found->mean;
  }

  void judge() {
    std::ranges::sort(seconds_);
    out_.seconds = seconds_[seconds_.size() / 2];  // the first call may load much
    const bool reads_gold = !out_.gold_column.empty();
    std::int64_t scored = 0;
    std::int64_t failures = 0;
    for (const TrialRow& row : out_.rows) {
      scored += row.rows - row.none;
      failures += row.failures;
    }
    if (failures > 0)
      suspect(base::counted(failures, "answer") + " could not be scored (NaN, an exception, a time-out)");
    if (scored == 0) suspect("gives no answer a score");
    if (scored > 0 && lowest_ == highest_)
      suspect("gives every answer the same score: it has no training signal");
    if (out_.seconds > kSlow) suspect("takes more than a second per call");
    if (mean("empty") > 0) suspect("rewards an empty answer");
    if (!reads_gold) return;
    if (best_.none > 0)
      suspect("gives no score to " + std::to_string(best_.none) + " of " + std::to_string(best_.rows) +
              " gold answers: it cannot parse them");
    if (std::isnan(best_.mean) || lowest_ == highest_) return;
    if (!(best_.mean > mean("junk"))) suspect("the gold answer scores no higher than junk");
    if (!(best_.mean > mean("empty"))) suspect("the gold answer scores no higher than an empty answer");
    if (differ_ && !(best_.mean > mean("another row's gold")))
      suspect("the gold answer scores no higher than another row's");
    const double other = mean("another row's gold"), junk = mean("junk");
    if (differ_ && other < best_.mean && best_.mean > junk &&
        other - junk >= kPaidFor * (best_.mean - junk)) {
      suspect("another row's gold earns " + short_score(other) + ", where the right one earns " +
              short_score(best_.mean) + ": wrong answers are paid for");
    }
    if (mean("gold, repeated") > best_.mean) suspect("repeating the answer earns more than giving it once");
    if (mean("gold cut in half") >= best_.mean) suspect("half of the answer earns as much as all of it");
  }

  Reward& reward_;
  const TrialData& data_;
  Trial out_;
  TrialRow best_;
  std::vector<double> seconds_;
  bool told_broken_ = false;
  bool differ_ = false;  // are there rows with different golds?
  double lowest_ = std::numeric_limits<double>::infinity();
  double highest_ = -std::numeric_limits<double>::infinity();
};

}  // namespace

Trial try_reward(Reward& reward, const std::vector<std::string>& needed, const TrialData& data) {
  return Tester(reward, data).run(needed);
}

}  // namespace hone::rewards
