#include "rewards/open_r1/open_r1_rewards.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include "base/error.h"
#include "base/strings/code_points.h"
#include "rewards/code/code_reward.h"
#include "rewards/math/accuracy_reward.h"

namespace hone::rewards {

namespace {

using base::to_code_points;

// One value from each completion's text.
std::unique_ptr<Reward> of_texts(const std::string& name,
                                 const std::function<double(const std::string&)>& function) {
  return make_reward(name, [=](const Request& request) {
    Scores out;
    for (const std::string& text : completion_texts(request, name)) out.values.push_back(function(text));
    return out;
  });
}

std::unique_ptr<Reward> accuracy(Parameters parameters) {
  const std::string name = parameters.text("name", "accuracy_reward");
  const std::string column = parameters.text("column", "solution");
  parameters.finish();
  return make_reward(name, [=](const Request& request) {
    return accuracy_scores(request, name, column, AccuracyRules::kOpenR1);
  });
}

// Whether `parts` follow one another in the text from `at` on, with anything between, and a line ends there.
// The first occurrence of each part leaves the most for those after it.
bool has_in_order(std::string_view text, std::size_t at, std::initializer_list<std::string_view> parts,
                  std::string_view last) {
  for (const std::string_view part : parts) {
    at = text.find(part, at);
    if (at == std::string_view::npos) return false;
    at += part.size();
  }
  while ((at = text.find(last, at)) != std::string_view::npos) {
    at += last.size();
    if (at == text.size() || text[at] == '\n') return true;
  }
  return false;
}

constexpr std::string_view kThink = "<think>\n", kAnswer = "\n</think>\n<answer>\n", kEnd = "\n</answer>";

std::unique_ptr<Reward> format(Parameters parameters) {
  const std::string name = parameters.text("name", "format_reward");
  parameters.finish();
  return of_texts(name, [](const std::string& text) {
    return text.starts_with(kThink) && has_in_order(text, kThink.size(), {kAnswer}, kEnd) ? 1.0 : 0.0;
  });
}

std::unique_ptr<Reward> code_format(Parameters parameters) {
  const std::string name = parameters.text("name", "code_format_reward");
  const std::string language = parameters.text("language", "python");
  parameters.finish();
  return make_reward(name, [=](const Request& request) {
    const auto texts = completion_texts(request, name);
    std::vector<std::optional<std::string>> languages(texts.size());
    if (request.columns.contains("language")) languages = column_texts(request, "language", name);
    Scores out;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string block = "```" + languages[i].value_or(language);
      const bool good = texts[i].starts_with(kThink) &&
                        has_in_order(texts[i], kThink.size(), {kAnswer, block, "```"}, kEnd);
      out.values.push_back(good ? 1 : 0);
    }
    return out;
  });
}

// A quarter for each of <think>, </think>, <answer> and </answer>, with the line breaks of its prompt.
std::unique_ptr<Reward> tag_count(Parameters parameters) {
  const std::string name = parameters.text("name", "tag_count_reward");
  parameters.finish();
  return of_texts(name, [](const std::string& text) {
    double score = 0;
    for (const std::string_view tag : {"<think>\n", "\n</think>\n", "\n<answer>\n", "\n</answer>"}) {
      const std::size_t first = text.find(tag);
      if (first != std::string::npos && text.find(tag, first + tag.size()) == std::string::npos)
        score += 0.25;
    }
    return score;
  });
}

// The bytes of (Step \d+:|^\d+\.|\n-|\n\*|First,|Second,|Next,|Finally,) at `at`; 0: it is not there.
std::size_t step_at(std::string_view text, std::size_t at) {
  const auto digits_then = [&](std::size_t from, char end) -> std::size_t {
    std::size_t last = from;
    while (last < text.size() && text[last] >= '0' && text[last] <= '9') ++last;
    return last > from && last < text.size() && text[last] == end ? last + 1 - at : 0;
  };
  for (const std::string_view word : {"\n-", "\n*", "First,", "Second,", "Next,", "Finally,"}) {
    if (text.substr(at, word.size()) == word) return word.size();
  }
  constexpr std::string_view kStep = "Step ";
  if (text.substr(at, kStep.size()) == kStep) return digits_then(at + kStep.size(), ':');
  return at == 0 ? digits_then(0, '.') : 0;
}

std::unique_ptr<Reward> reasoning_steps(Parameters parameters) {
  const std::string name = parameters.text("name", "reasoning_steps_reward");
  parameters.finish();
  return of_texts(name, [](const std::string& text) {
    std::size_t steps = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = step_at(text, at);
      steps += length > 0 ? 1 : 0;
      at += std::max<std::size_t>(length, 1);
    }
    return std::min(1.0, static_cast<double>(steps) / 3);
  });
}

// Whether each answer is right; where the gold cannot be read, nothing.
Scores latex_accuracy(const Request& request, const std::string& name, const std::string& column) {
  Scores out = accuracy_scores(request, name, column, AccuracyRules::kOpenR1Latex);
  out.extra.clear();
  return out;
}

std::vector<double> character_counts(const Request& request, const std::string& name) {
  std::vector<double> out;
  for (const std::string& text : completion_texts(request, name))
    out.push_back(static_cast<double>(to_code_points(text).size()));
  return out;
}

std::unique_ptr<Reward> cosine(Parameters parameters) {
  const std::string name = parameters.text("name", "cosine_scaled_reward");
  const std::string column = parameters.text("column", "solution");
  const double min_wrong = parameters.number("min_value_wrong", 0);
  const double max_wrong = parameters.number("max_value_wrong", -0.5);
  const double min_correct = parameters.number("min_value_correct", 0.5);
  const double max_correct = parameters.number("max_value_correct", 1);
  const auto longest = static_cast<double>(parameters.integer("max_len", 1000, 1));
  parameters.finish();
  return make_reward(name, [=](const Request& request) {
    Scores out = latex_accuracy(request, name, column);
    const std::vector<double> lengths = character_counts(request, name);
    for (std::size_t i = 0; i < out.values.size(); ++i) {
      if (std::isnan(out.values[i])) {
        out.values[i] = 1;
        continue;
      }
      const bool correct = out.values[i] == 1;
      const double low = correct ? min_correct : max_wrong;  // the bounds of a wrong one change places
      const double high = correct ? max_correct : min_wrong;
      out.values[i] = low + 0.5 * (high - low) * (1.0 + std::cos(lengths[i] / longest * std::numbers::pi));
    }
    return out;
  });
}

std::unique_ptr<Reward> length(Parameters parameters) {
  if (parameters.has("target")) return length_by_target(std::move(parameters));
  const std::string name = parameters.text("name", "len_reward");
  const std::string column = parameters.text("column", "solution");
  parameters.finish();
  return make_reward(name, [=](const Request& request) {
    Scores out = latex_accuracy(request, name, column);
    const std::vector<double> lengths = character_counts(request, name);
    if (lengths.empty()) return out;
    const auto [least, most] = std::ranges::minmax(lengths);
    for (std::size_t i = 0; i < out.values.size(); ++i) {
      const double score = most == least ? 0 : 0.5 - (lengths[i] - least) / (most - least);
      out.values[i] = out.values[i] == 0 ? std::min(0.0, score) : score;
    }
    return out;
  });
}

// Python's str.lower of the letters of Latin, Greek and Cyrillic; others stay.
char32_t lower(char32_t c) {
  const auto within = [c](char32_t first, char32_t last) { return c >= first && c <= last; };
  if (within('A', 'Z') || (within(0xC0, 0xDE) && c != 0xD7)) return c + 0x20;
  if ((within(0x100, 0x12F) || within(0x132, 0x137) || within(0x14A, 0x177)) && c % 2 == 0) return c + 1;
  if ((within(0x139, 0x148) || within(0x179, 0x17E)) && c % 2 == 1) return c + 1;
  if (within(0x391, 0x3A9) && c != 0x3A2) return c + 0x20;
  if (within(0x400, 0x40F)) return c + 0x50;
  return within(0x410, 0x42F) ? c + 0x20 : c;
}

// The words of text.lower().split(), numbered: equal words, equal numbers.
std::vector<std::int32_t> numbered_words(const std::string& text) {
  std::map<std::u32string, std::int32_t> numbers;
  std::vector<std::int32_t> out;
  std::u32string word;
  const auto end_word = [&] {
    if (word.empty()) return;
    out.push_back(numbers.emplace(word, static_cast<std::int32_t>(numbers.size())).first->second);
    word.clear();
  };
  for (const char32_t c : to_code_points(text)) {
    if (base::is_space(c)) {
      end_word();
    } else {
      word += lower(c);
    }
  }
  end_word();
  return out;
}

std::unique_ptr<Reward> repetition_penalty(Parameters parameters) {
  const std::string name = parameters.text("name", "repetition_penalty_reward");
  const auto n = static_cast<std::size_t>(parameters.integer("ngram_size", 3, 1));
  const double most = parameters.number("max_penalty", -1);
  if (most > 0) parameters.fail("max_penalty", "a number that is not positive", std::to_string(most));
  parameters.finish();
  return of_texts(name, [=](const std::string& text) {
    const std::vector<std::int32_t> words = numbered_words(text);
    if (words.size() < n) return 0.0;
    const auto total = static_cast<double>(words.size() - n + 1);
    return (1 - (total - static_cast<double>(repeated_ngrams(words, n))) / total) * most;
  });
}

std::unique_ptr<Reward> open_r1_overlong(Parameters parameters) {
  const std::string name = parameters.text("name", "soft_overlong_punishment_reward");
  const auto most = static_cast<double>(parameters.integer("max_completion_len", 16384, 1));
  const auto cache = static_cast<double>(parameters.integer("soft_punish_cache", 4096, 0));
  parameters.finish();
  return make_reward(name,
                     [=](const Request& request) { return overlong_scores(request, name, most, cache); });
}

template <std::size_t At>
std::unique_ptr<Reward> needs_piston(
    Parameters /*parameters*/) {  // NOLINT(performance-unnecessary-value-param): the table's form
  constexpr std::array<const char*, 2> kNames = {"ioi_code", "cf_code"};
  throw base::UserError(
      {.where = "reward_funcs",
       .expected = "a reward that hone has, or a Python function",
       .found = kNames[At],
       .cause =
           "open-r1 compiles and grades these programs on Piston servers, which have the graders of the contests and which "
           "hone does not call",
       .fix =
           "write a function def score(completions, **columns) that calls your servers "
           "and returns a number for each completion, and name it: reward_funcs: rewards.py:score; for Python "
           "with test cases as texts, `code` runs on this machine"});
}

}  // namespace

std::span<const BuiltInReward> open_r1_rewards() {
  static constexpr BuiltInReward kRewards[] = {
      {"accuracy", &accuracy, "solution"},
      {"format", &format},
      {"tag_count", &tag_count},
      {"reasoning_steps", &reasoning_steps},
      {"cosine", &cosine, "solution"},
      {"repetition_penalty", &repetition_penalty},
      {.name = "length", .make = &length, .column = "solution", .instead = "target"},
      {"code_format", &code_format},
      {"soft_overlong_punishment", &open_r1_overlong},
      {.name = "code", .make = nullptr, .column = "verification_info", .open = &open_code_reward},
      {.name = "binary_code",
       .make = nullptr,
       .column = "verification_info",
       .open = &open_binary_code_reward},
      {"ioi_code", &needs_piston<0>},
      {"cf_code", &needs_piston<1>},
  };
  return kRewards;
}

}  // namespace hone::rewards
