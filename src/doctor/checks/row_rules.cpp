#include "doctor/checks/row_rules.h"

#include <algorithm>
#include <array>
#include <map>

#include "doctor/checks/check_format.h"
#include "doctor/number_format.h"

namespace hone::doctor {

using base::Level;

namespace {

constexpr double kOneCharacter = 0.5;       // of an answer
constexpr std::size_t kLongAnswer = 24;     // bytes: a shorter one may well be one character, or its prompt
constexpr std::size_t kOpeningBytes = 160;  // of an answer, where it says what wrote it

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// ---- answers that are none
RowFinding is_the_prompt(const RowTexts& row) {
  const std::string* const answer = answer_text(row);
  if (answer == nullptr || !row.prompt || row.text) return std::nullopt;
  const std::string prompt = trimmed_text(*row.prompt);
  if (prompt.size() < kLongAnswer || prompt != trimmed_text(*answer)) return std::nullopt;
  return "the answer is the prompt";
}

RowFinding is_one_character(const RowTexts& row) {
  const std::string* const answer = answer_text(row);
  if (answer == nullptr || answer->size() < kLongAnswer) return std::nullopt;
  std::array<std::size_t, 256> counts{};
  for (const char c : *answer) counts.at(static_cast<unsigned char>(c)) += 1;
  counts[' '] = 0;
  // Bytes of other alphabets' letters begin alike.
  const auto most = std::max_element(counts.begin(), counts.begin() + 0x80);
  if (static_cast<double>(*most) <= kOneCharacter * static_cast<double>(answer->size())) return std::nullopt;
  const char c = static_cast<char>(most - counts.begin());
  return "one character, `" + format::shown(std::string_view(&c, 1)) + "`, is more than half of it";
}

RowFinding is_one_line(const RowTexts& row) {
  const std::string* const answer = answer_text(row);
  if (answer == nullptr) return std::nullopt;
  std::map<std::string, std::size_t> lines;
  std::size_t all = 0;
  for (std::size_t at = 0; at < answer->size();) {
    const std::size_t end = std::min(answer->find('\n', at), answer->size());
    const std::string line = trimmed_text(answer->substr(at, end - at));
    if (line.size() > 3) lines[line] += 1, all += 1;
    at = end + 1;
  }
  for (const auto& [line, count] : lines) {
    if (all >= 4 && 2 * count > all) return "one line is there " + std::to_string(count) + " times";
  }
  return std::nullopt;
}

RowFinding has_replaced_letters(const RowTexts& row) {
  if (all_texts(row).find("\uFFFD") == std::string::npos) return std::nullopt;
  return "U+FFFD in the place of a letter";
}

// ---- reasoning
RowFinding thinks(const RowTexts& row) {
  const std::string* const answer = answer_text(row);
  if (answer == nullptr || answer->find("</think>") == std::string::npos) return std::nullopt;
  return "a think block";
}

// Rows whose prompt or system turn says which kind they are learn the switch.
RowFinding thinks_unasked(const RowTexts& row) {
  for (const auto& text : {row.prompt, row.system}) {
    if (text && (text->find("/think") != std::string::npos || text->find("/no_think") != std::string::npos ||
                 lower(*text).find("reasoning") != std::string::npos))
      return std::nullopt;
  }
  const std::string* const answer = answer_text(row);
  // An empty block is how a template writes that there is none.
  const std::size_t at = answer == nullptr ? std::string::npos : answer->find("<think>");
  if (at == std::string::npos) return std::nullopt;
  const std::size_t end = answer->find("</think>", at);
  if (end != std::string::npos && trimmed_text(answer->substr(at + 7, end - at - 7)).empty())
    return std::nullopt;
  return thinks(row);
}

RowFinding leaves_thinking_open(const RowTexts& row) {
  const std::string* const answer = answer_text(row);
  if (answer == nullptr || answer->find("<think>") == std::string::npos ||
      answer->find("</think>") != std::string::npos)
    return std::nullopt;
  return "<think> without </think>";
}

// ---- who says that it speaks
RowFinding names_a_maker(const RowTexts& row) {
  const std::string* const answer = answer_text(row);
  if (answer == nullptr || row.text) return std::nullopt;
  const std::string text = lower(std::string_view(*answer).substr(0, kOpeningBytes));
  for (const char* const one : {"as an ai language model",
                                "as an ai,",
                                "as an ai assistant",
                                "as a language model",
                                "i'm chatgpt",
                                "i am chatgpt",
                                "i'm claude",
                                "i am claude",
                                "i'm gemini",
                                "i am gemini",
                                "i'm qwen",
                                "i am qwen",
                                "i'm deepseek",
                                "i am deepseek",
                                "i'm llama",
                                "i am llama",
                                "trained by openai",
                                "developed by openai",
                                "created by openai",
                                "made by openai",
                                "made by anthropic",
                                "created by anthropic",
                                "trained by google",
                                "created by alibaba"}) {
    if (text.find(one) != std::string::npos) return "\"" + std::string(one) + "\"";
  }
  return std::nullopt;
}

// ---- secrets, personal data
RowFinding holds_secret(const RowTexts& row) {
  return find_secret(all_texts(row));
}

RowFinding holds_personal(const RowTexts& row) {
  return find_personal(all_texts(row));
}

constexpr double kFewAnswers = 0.02, kIdentity = 0.01, kOpenThinking = 0.01;
constexpr std::int64_t kMixedRows = 200, kSomeRows = 3;

constexpr RowRule kRules[] = {
    {.code = "DATA-16",
     .find = is_the_prompt,
     .above = kFewAnswers,
     .what = "have their prompt as the answer",
     .cause = "suspected: one column was read for both sides",
     .fix = "dataset_columns: {prompt: COLUMN, completion: OTHER_COLUMN} with the names of your columns",
     .cost = "a model that repeats the question"},
    {.code = "DATA-16",
     .find = is_one_character,
     .above = kFewAnswers,
     .least = kSomeRows,
     .what = "have an answer that is mostly one character",
     .cause = "suspected: a generator that ran in a circle, or rows of rulers and blanks",
     .fix = "remove these rows",
     .cost = "a model that runs in a circle"},
    {.code = "DATA-16",
     .find = is_one_line,
     .above = kFewAnswers,
     .least = kSomeRows,
     .what = "have an answer that repeats one line",
     .cause = "suspected: a generator that ran in a circle until its limit",
     .fix = "remove these rows",
     .cost = "a model that repeats itself"},
    {.code = "DATA-16",
     .find = has_replaced_letters,
     .above = kIdentity,
     .least = kSomeRows,
     .what = "hold U+FFFD, which stands for letters that are lost",
     .cause = "a program that read another encoding as UTF-8, or cut a text within a letter",
     .not_this = "letters that were encoded twice: these can be repaired, and the lost ones cannot",
     .fix = "read the source in its own encoding, or remove these rows",
     .cost = "a model that writes the mark"},
    {.code = "DATA-16",
     .find = thinks_unasked,
     .above = kFewAnswers,
     .below = 1 - kFewAnswers,
     .of_rows = kMixedRows,
     .what = "have a think block in their answer, and the others have none",
     .cause = "suspected: rows of a reasoning model and of another one in one file",
     .not_this = "a switch in the prompt (/think, /no_think): such rows are not counted",
     .fix = "keep one kind, or let the system turn of each row say which it is",
     .cost = "a model that thinks at random"},
    {.code = "DATA-16",
     .find = leaves_thinking_open,
     .above = kOpenThinking,
     .least = kSomeRows,
     .what = "have an answer whose <think> is never closed",
     .cause = "suspected: a generator that reached its limit while it was thinking",
     .fix = "remove these rows",
     .cost = "a model that never comes to its answer"},
    {.code = "DATA-16",
     .find = names_a_maker,
     .above = kIdentity,
     .least = kSomeRows,
     .what = "have an answer that speaks as another assistant",
     .cause = "suspected: answers that were made with another model",
     .fix = "remove or rewrite these rows, unless the model is to say so",
     .cost = "a model that calls itself by another name"},
};

constexpr RowRule kPrivateRules[] = {
    {.code = "DATA-17",
     .find = holds_secret,
     .what = "hold what has the form of a secret",
     .cause = "suspected: logs, notebooks or configuration files among the rows",
     .not_this = "placeholders: these have other forms, or too few different characters",
     .fix = "revoke it, then remove it from the rows; the report never shows its value",
     .cost = "a model that can be asked for it"},
    {.code = "DATA-17",
     .level = Level::kNote,
     .find = holds_personal,
     .what = "hold what has the form of personal data",
     .cause = "suspected: mails, forms or web pages among the rows",
     .fix = "replace the values, unless they are public",
     .cost = "a model that may repeat them"},
};

// "an e-mail address 12, an IBAN 1"; empty: one kind.
std::string kinds_of(const std::map<std::string, std::int64_t>& kinds) {
  if (kinds.size() < 2) return "";
  std::string out;
  std::size_t shown = 0;
  for (const auto& [kind, count] : kinds) {
    if (shown++ == 6) return out + ", ...";
    out += (out.empty() ? "" : ", ") + kind + ": " + base::counted(count, "row");
  }
  return out;
}

}  // namespace

std::span<const RowRule> row_rules() {
  return kRules;
}

std::span<const RowRule> private_rules() {
  return kPrivateRules;
}

const std::string* answer_text(const RowTexts& row) {
  for (const auto* const one : {&row.completion, &row.chosen, &row.text}) {
    if (*one) return &**one;
  }
  return nullptr;
}

std::string all_texts(const RowTexts& row) {
  std::string out;
  for (const auto* const one :
       {&row.system, &row.prompt, &row.completion, &row.chosen, &row.rejected, &row.text}) {
    if (*one) out += **one + "\n";
  }
  return out;
}

std::vector<base::Verdict> judge_rows(std::span<const RowRule> rules, const std::vector<RowTexts>& rows) {
  std::vector<base::Verdict> out;
  for (const RowRule& rule : rules) {
    if (static_cast<std::int64_t>(rows.size()) < rule.of_rows) continue;
    std::map<std::string, std::int64_t> kinds;
    std::int64_t count = 0;
    std::string first;
    for (const RowTexts& row : rows) {
      const RowFinding found = rule.find(row);
      if (!found) continue;
      if (count++ == 0) first = row.where + ": " + *found;
      kinds[*found] += 1;
    }
    const double part = share(count, static_cast<std::int64_t>(rows.size()));
    if (count < rule.least || part <= rule.above || part >= rule.below) continue;
    const std::string all = kinds_of(kinds);
    out.push_back({.code = std::string(rule.code),
                   .level = rule.level,
                   .what = of_first(count, rows.size(), "row") + " " + std::string(rule.what),
                   .evidence = first + (all.empty() ? "" : "; " + all),
                   .cause = std::string(rule.cause),
                   .not_this = std::string(rule.not_this),
                   .fix = std::string(rule.fix),
                   .cost = std::string(rule.cost)});
  }
  return out;
}

}  // namespace hone::doctor
