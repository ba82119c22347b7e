#include "rewards/pattern/native_rewards.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/stopwatch.h"
#include "base/strings/ascii.h"
#include "base/strings/pattern.h"
#include "base/strings/suggest.h"

namespace hone::rewards {

namespace {

using base::Json;
using base::Pattern;
using base::PatternTooSlow;
using base::to_code_points;
using base::to_utf8;

class FunctionReward : public Reward {
 public:
  FunctionReward(std::string name, std::function<Scores(const Request&)> function)
      : name_(std::move(name)), function_(std::move(function)) {}

  const std::string& name() const override { return name_; }
  Scores score(const Request& request) override {
    const auto start = base::Clock::now();
    Scores out = function_(request);
    base::require(out.values.size() == request.size(), name_, "as many scores as completions");
    out.seconds = base::seconds_since(start);
    return out;
  }

 private:
  std::string name_;
  std::function<Scores(const Request&)> function_;
};

std::string strip(std::string_view text) {
  const std::u32string points = to_code_points(text);
  return to_utf8(base::stripped(points));
}

// One value from each completion's number of tokens.
Scores from_ids(const Request& request, const std::string& reward,
                const std::function<double(const std::vector<std::int32_t>&)>& function) {
  base::require(request.completion_ids.size() == request.size(), reward, "token ids of every completion");
  Scores out;
  for (const auto& ids : request.completion_ids) out.values.push_back(function(ids));
  return out;
}

// Numbers the pairs (first[i], second[i + shift]): equal pairs, equal numbers.
std::vector<std::int32_t> numbered_pairs(const std::vector<std::int32_t>& first,
                                         const std::vector<std::int32_t>& second, std::size_t shift) {
  const std::size_t count = std::min(first.size(), second.size() - shift);
  const auto pair_at = [&](std::size_t i) {
    return (std::uint64_t{static_cast<std::uint32_t>(first[i])} << 32U) |
           static_cast<std::uint32_t>(second[i + shift]);
  };
  std::vector<std::uint64_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = pair_at(i);
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::vector<std::int32_t> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::int32_t>(std::ranges::lower_bound(all, pair_at(i)) - all.begin());
  return out;
}

}  // namespace

std::string completion_text(const Json& completion, std::string_view reward) {
  if (completion.is_string()) return completion.get<std::string>();
  if (completion.is_array() && !completion.empty() && completion[0].is_object()) {
    const auto content = completion[0].find("content");
    if (content != completion[0].end() && content->is_string()) return content->get<std::string>();
    if (content != completion[0].end() && content->is_null()) return "";
  }
  throw base::UserError(
      {.where = "reward " + std::string(reward),
       .expected = "completions that are text or [{\"role\": \"assistant\", \"content\": text}]",
       .found = base::dump_json(completion).substr(0, 200)});
}

std::vector<std::string> completion_texts(const Request& request, std::string_view reward) {
  std::vector<std::string> out;
  for (const Json& completion : request.completions) out.push_back(completion_text(completion, reward));
  return out;
}

std::vector<std::optional<std::string>> column_texts(const Request& request, const std::string& column,
                                                     std::string_view reward) {
  const auto found = request.columns.find(column);
  if (found == request.columns.end()) {
    std::vector<std::string> names;
    for (const auto& item : request.columns.items()) names.push_back(item.key());
    std::string all;
    for (const auto& name : names) all += (all.empty() ? "" : ", ") + name;
    throw base::UserError(
        {.where = "reward " + std::string(reward),
         .expected = "a column \"" + column + "\" in the data",
         .found = (all.empty() ? "no other columns." : all + ".") + base::did_you_mean(column, names),
         .fix = "add it, or name another with " + std::string(reward) + "(column=...)"});
  }
  base::require(found->is_array() && found->size() == request.size(), "column " + column,
                "one value per completion");
  std::vector<std::optional<std::string>> out;
  for (const Json& value : *found) {
    if (value.is_null()) {
      out.emplace_back();
    } else {
      out.emplace_back(value.is_string() ? value.get<std::string>() : base::dump_json(value));
    }
  }
  return out;
}

// Windows get numbers by doubling their length, so that a long n costs
// log n sorts and no copies of n-grams.
std::size_t repeated_ngrams(const std::vector<std::int32_t>& ids, std::size_t n) {
  if (n > ids.size()) return 0;
  std::vector<std::int32_t> windows;  // numbers of the windows of `done` tokens
  std::size_t done = 0;
  std::vector<std::int32_t> power = ids;  // of the windows of `length` tokens
  for (std::size_t length = 1;; length *= 2) {
    if ((n & length) != 0) {
      windows = done == 0 ? power : numbered_pairs(windows, power, done);
      done += length;
    }
    if (done == n) break;
    power = numbered_pairs(power, power, length);
  }
  const std::size_t count = windows.size();
  std::ranges::sort(windows);
  windows.erase(std::unique(windows.begin(), windows.end()), windows.end());
  return count - windows.size();
}

std::unique_ptr<Reward> make_reward(std::string name, std::function<Scores(const Request&)> function) {
  return std::make_unique<FunctionReward>(std::move(name), std::move(function));
}

namespace {

// 1 when the text begins with <think>, holds no other <think>, and a </think> after it; else 0.
std::unique_ptr<Reward> think_format_reward(Parameters parameters) {
  const std::string name = parameters.text("name", "think_format_reward");
  parameters.finish();
  return make_reward(name, [name](const Request& request) {
    Scores out;
    for (const std::string& text : completion_texts(request, name)) {
      constexpr std::string_view kOpen = "<think>";
      const bool good = text.starts_with(kOpen) && text.find(kOpen, kOpen.size()) == std::string::npos &&
                        text.find("</think>", kOpen.size()) != std::string::npos;
      out.values.push_back(good ? 1 : 0);
    }
    return out;
  });
}

// TRL get_soft_overlong_punishment: 0 up to max - cache tokens, then linearly down to -1 at max, -1 above it.
std::unique_ptr<Reward> soft_overlong_punishment(Parameters parameters) {
  const std::string name = parameters.text("name", "soft_overlong_punishment_reward");
  const auto most = static_cast<double>(parameters.integer("max_completion_len", 1280, 1));
  const auto cache = static_cast<double>(parameters.integer("soft_punish_cache", 256, 0));
  parameters.finish();
  return make_reward(name,
                     [=](const Request& request) { return overlong_scores(request, name, most, cache); });
}

// TRL get_repetition_penalty_reward: max_penalty times the share of repeated token n-grams.
std::unique_ptr<Reward> repetition_penalty_reward(Parameters parameters) {
  const std::string name = parameters.text("name", "repetition_penalty_reward");
  const auto n = static_cast<std::size_t>(parameters.integer("ngram_size", 3, 1));
  const double most = parameters.number("max_penalty", -1);
  if (most > 0) parameters.fail("max_penalty", "a number that is not positive", std::to_string(most));
  parameters.finish();
  return make_reward(name, [=](const Request& request) {
    return from_ids(request, name, [=](const std::vector<std::int32_t>& ids) {
      if (ids.size() < n) return 0.0;
      const auto total = static_cast<double>(ids.size() - n + 1);
      const double share = 1 - (total - static_cast<double>(repeated_ngrams(ids, n))) / total;
      return share == 0 ? 0.0 : share * most;
    });
  });
}

// 1 when the completion is the column's text, white space at both ends set aside. None where the column is null.
std::unique_ptr<Reward> exact_match(Parameters parameters) {
  const std::string name = parameters.text("name", "exact_match");
  const std::string column = parameters.text("column", "answer");
  const bool ignore_case = parameters.boolean("ignore_case", false);
  parameters.finish();
  return make_reward(name, [=](const Request& request) {
    const auto gold = column_texts(request, column, name);
    const auto texts = completion_texts(request, name);
    const auto plain = [&](const std::string& text) {
      return ignore_case ? base::lower_ascii(strip(text)) : strip(text);
    };
    Scores out;
    for (std::size_t i = 0; i < texts.size(); ++i)
      out.values.push_back(!gold[i] ? kNone : plain(texts[i]) == plain(*gold[i]) ? 1 : 0);
    return out;
  });
}

// 1 when the pattern is found anywhere. With a column: 1 when the last match's group 1 (or whole match) is the
// column's text, white space set aside.
std::unique_ptr<Reward> regex(Parameters parameters) {
  const std::string name = parameters.text("name", "regex");
  const std::string text = parameters.needed_text("pattern", "regex(pattern=\"[0-9]+\")");
  const std::string column = parameters.text("column", "");
  Pattern::Flags flags;
  flags.ignore_case = parameters.boolean("ignore_case", false);
  flags.multi_line = parameters.boolean("multiline", false);
  flags.dot_all = parameters.boolean("dotall", false);
  parameters.finish();
  const auto pattern = std::make_shared<const Pattern>(text, flags, parameters.where("pattern"));
  return make_reward(name, [=](const Request& request) {
    const auto texts = completion_texts(request, name);
    std::vector<std::optional<std::string>> gold;
    if (!column.empty()) gold = column_texts(request, column, name);
    Scores out;
    for (std::size_t i = 0; i < texts.size(); ++i) try {
        const std::u32string points = to_code_points(texts[i]);
        if (column.empty()) {
          out.values.push_back(pattern->search(points) ? 1 : 0);
          continue;
        }
        const auto all = pattern->find_all(points);
        const int group = !all.empty() && all.back().at.size() > 2 ? 1 : 0;
        const bool same =
            gold[i] && !all.empty() && strip(to_utf8(all.back().text(points, group))) == strip(*gold[i]);
        out.values.push_back(!gold[i] ? kNone : same ? 1 : 0);
      } catch (const PatternTooSlow&) {
        out.values.push_back(kNone);
        out.failures.push_back(
            {request.first_sample + static_cast<std::int64_t>(i),
             "the pattern took more than " + std::to_string(Pattern::kMaxSteps) + " steps"});
      }
    return out;
  });
}

}  // namespace

Scores overlong_scores(const Request& request, const std::string& name, double most, double cache) {
  return from_ids(request, name, [=](const std::vector<std::int32_t>& ids) {
    const auto size = static_cast<double>(ids.size());
    if (size <= most - cache) return 0.0;
    return size <= most ? (most - cache - size) / cache : -1.0;
  });
}

// 0 at the target, linearly down to -1 for nothing at all and for twice the target or more.
std::unique_ptr<Reward> length_by_target(Parameters parameters) {
  const std::string name = parameters.text("name", "length");
  const auto target = static_cast<double>(parameters.needed_integer("target", 1, "length(target=100)"));
  const bool tokens = parameters.choice("unit", {"tokens", "characters"}) == "tokens";
  parameters.finish();
  const auto score = [target](std::size_t size) {
    return -std::min(1.0, std::abs(static_cast<double>(size) - target) / target);
  };
  return make_reward(name, [=](const Request& request) {
    if (tokens) return from_ids(request, name, [=](const auto& ids) { return score(ids.size()); });
    Scores out;
    for (const auto& text : completion_texts(request, name))
      out.values.push_back(score(to_code_points(text).size()));
    return out;
  });
}

std::span<const BuiltInReward> native_rewards() {
  static constexpr BuiltInReward kRewards[] = {
      {"think_format_reward", &think_format_reward},
      {"get_soft_overlong_punishment", &soft_overlong_punishment},
      {"get_repetition_penalty_reward", &repetition_penalty_reward},
      {"exact_match", &exact_match, "answer"},
      {"regex", &regex},
  };
  return kRewards;
}

}  // namespace hone::rewards
