// PREF-05 by the texts of the first rows: chosen and rejected the wrong way round, or a side that is no
// answer.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "doctor/checks/row_texts.h"
#include "doctor/number_format.h"

namespace hone::doctor {

using base::Json;
using base::Level;
using base::Verdict;

namespace {

constexpr std::int64_t kPairRows = 500;
constexpr std::size_t kLeastPairs = 8;
constexpr double kBlankChosen = 0.05, kBlankRejected = 0.2;
constexpr double kOneText = 0.9, kOtherTexts = 0.5;
constexpr double kRefusals = 0.8, kFewRefusals = 0.2;
constexpr double kAgainst = 0.9;  // of the rows whose two scores differ

struct TextSides {
  std::string where, prompt, chosen, rejected;
  const Json* row = nullptr;
};

double share_of_sides(std::int64_t count, std::size_t whole) {
  return share(count, static_cast<std::int64_t>(whole));
}

std::string of_first_pairs(std::int64_t count, std::size_t whole) {
  return of_first(count, whole, "pair");
}

std::vector<TextSides> sides_of(const std::vector<RowTexts>& rows) {
  std::vector<TextSides> out;
  for (const RowTexts& one : rows) {
    if (one.chosen && one.rejected && !one.calls_tools)
      out.push_back({one.where, one.prompt.value_or(""), trimmed_text(*one.chosen),
                     trimmed_text(*one.rejected), one.row});
  }
  return out;
}

bool refuses(const std::string& text) {
  static constexpr std::array kBeginnings = {
      "I'm sorry",    "I am sorry", "I’m sorry",           "Sorry,",      "I can't",
      "I can’t",      "I cannot",   "I'm unable",          "I am unable", "I won't",
      "I'm not able", "As an AI",   "As a language model", "I apologize", "Unfortunately, I can"};
  return std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [&](const char* one) { return text.starts_with(one); });
}

// ---- blank sides
std::optional<Verdict> check_blank(const std::vector<TextSides>& rows, bool chosen) {
  const auto is_blank_side = [chosen](const TextSides& one) {
    const std::string &own = chosen ? one.chosen : one.rejected, &other = chosen ? one.rejected : one.chosen;
    return own.empty() && !other.empty();
  };
  const auto count = std::count_if(rows.begin(), rows.end(), is_blank_side);
  if (share_of_sides(count, rows.size()) < (chosen ? kBlankChosen : kBlankRejected)) return std::nullopt;
  const std::string side = chosen ? "chosen" : "rejected";
  Verdict out{.code = "PREF-05", .level = Level::kWarn};
  out.what = of_first_pairs(count, rows.size()) + " have an empty " + side + " completion";
  out.evidence = std::find_if(rows.begin(), rows.end(), is_blank_side)->where + " is the first";
  out.cause = "a missing value";
  out.fix = "remove these pairs, or fill in the column " + side;
  out.cost = chosen ? "the run learns to answer nothing"
                    : "any answer is better than none: little is learned of these pairs";
  return out;
}

// ---- one text for all
std::pair<std::string, std::int64_t> most_frequent(const std::vector<TextSides>& rows, bool chosen) {
  std::map<std::string, std::int64_t> counts;
  for (const TextSides& one : rows) counts[chosen ? one.chosen : one.rejected] += 1;
  const auto most = std::max_element(counts.begin(), counts.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return *most;
}

std::optional<Verdict> check_one_text(const std::vector<TextSides>& rows) {
  const auto chosen = most_frequent(rows, true), rejected = most_frequent(rows, false);
  for (const bool of_chosen : {true, false}) {
    const auto& [text, count] = of_chosen ? chosen : rejected;
    const auto& other = of_chosen ? rejected : chosen;
    if (text.empty() || share_of_sides(count, rows.size()) < kOneText ||
        share_of_sides(other.second, rows.size()) > kOtherTexts)
      continue;
    Verdict out{.code = "PREF-05", .level = Level::kWarn};
    out.what = std::string(of_chosen ? "chosen" : "rejected") + " is the same text in " +
               of_first_pairs(count, rows.size());
    out.evidence = "`" + format::shown(text) + "`; the other side has it in " + std::to_string(other.second) +
                   " at most";
    out.cause = "suspected: a default, or a refusal, that stands for answers that are missing";
    out.fix = "an answer to its own prompt on both sides of each pair";
    out.cost = of_chosen ? "the run learns to say this to everything"
                         : "the run learns to avoid one text, which tells good answers from no others";
    return out;
  }
  return std::nullopt;
}

// ---- refusals
std::optional<Verdict> check_refusals(const std::vector<TextSides>& rows) {
  const auto of = [&](bool chosen) {
    return std::count_if(rows.begin(), rows.end(),
                         [&](const TextSides& one) { return refuses(chosen ? one.chosen : one.rejected); });
  };
  const auto chosen = of(true), rejected = of(false);
  if (share_of_sides(chosen, rows.size()) < kRefusals || share_of_sides(rejected, rows.size()) > kFewRefusals)
    return std::nullopt;
  Verdict out{.code = "PREF-05", .level = Level::kWarn};
  out.what = "chosen refuses in " + of_first_pairs(chosen, rows.size()) + ", rejected in " +
             std::to_string(rejected);
  const auto first =
      std::find_if(rows.begin(), rows.end(), [](const TextSides& one) { return refuses(one.chosen); });
  out.evidence = first->where + ": `" + format::shown(first->chosen) + "`, rejected `" +
                 format::shown(first->rejected) + "`";
  out.cause = "suspected: chosen and rejected are the wrong way round, unless every prompt is one to refuse";
  out.fix = "dataset_columns: {chosen: rejected, rejected: chosen}, or prompts that are to be answered too";
  out.cost = "a model that refuses everything";
  return out;
}

// ---- pairs whose columns say which side is the better one
struct Told {
  std::int64_t against = 0, all = 0;
  std::string first;  // the first pair against its columns

  void add(bool is_against, const std::function<std::string()>& shown) {
    all += 1;
    if (is_against && against++ == 0) first = shown();
  }
  bool is_turned() const {
    return all >= static_cast<std::int64_t>(kLeastPairs) && share(against, all) >= kAgainst;
  }
  std::string pairs() const { return of_first_pairs(against, static_cast<std::size_t>(all)); }
};

std::optional<double> number_of(const Json& row, const std::string& name) {
  const auto found = row.find(name);
  return found != row.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::optional<Verdict> check_scores(const std::vector<TextSides>& rows) {
  static const std::vector<std::pair<std::string, std::string>> kNames = {
      {"score_chosen", "score_rejected"},           {"chosen_score", "rejected_score"},
      {"rating_chosen", "rating_rejected"},         {"chosen_rating", "rejected_rating"},
      {"chosen-rating", "rejected-rating"},         {"chosen-score", "rejected-score"},
      {"chosen_avg_rating", "rejected_avg_rating"}, {"reward_chosen", "reward_rejected"},
      {"chosen_reward", "rejected_reward"}};
  for (const auto& [of_chosen, of_rejected] : kNames) {
    Told told;
    for (const TextSides& one : rows) {
      const auto good = number_of(*one.row, of_chosen), bad = number_of(*one.row, of_rejected);
      if (!good || !bad || *good == *bad) continue;
      told.add(*good <= *bad, [&, chosen_name = of_chosen, rejected_name = of_rejected] {
        return one.where + ": " + chosen_name + " " + format::number(*good) + ", " + rejected_name + " " +
               format::number(*bad);
      });
    }
    if (!told.is_turned()) continue;
    Verdict out{.code = "PREF-05", .level = Level::kWarn};
    out.what = "rejected has the higher score in " + told.pairs() + " whose scores differ";
    out.evidence = told.first;
    out.cause = "chosen and rejected are the wrong way round, or a lower score is a better one";
    out.fix = "dataset_columns: {chosen: rejected, rejected: chosen}, if a higher score is better";
    out.cost = "the run learns the worse answers";
    return out;
  }
  return std::nullopt;
}

// ---- the right answer on the rejected side
std::optional<Verdict> check_gold(const std::vector<TextSides>& rows) {
  for (const char* const name : {"answer", "solution", "ground_truth", "gold", "target"}) {
    Told told;
    for (const TextSides& one : rows) {
      const auto gold = format::column_text(*one.row, name);
      if (!gold || trimmed_text(*gold).empty()) continue;
      const bool good = holds_word(one.chosen, trimmed_text(*gold)),
                 bad = holds_word(one.rejected, trimmed_text(*gold));
      if (good == bad) continue;
      told.add(bad, [&] {
        return one.where + ": " + name + " " + trimmed_text(*gold) + ", chosen `" +
               format::shown(one.chosen) + "`, rejected `" + format::shown(one.rejected) + "`";
      });
    }
    if (!told.is_turned()) continue;
    Verdict out{.code = "PREF-05", .level = Level::kWarn};
    out.what = "the text of the column " + std::string(name) + " stands in rejected and not in chosen, in " +
               told.pairs() + " of which one has it";
    out.evidence = told.first;
    out.cause = "suspected: chosen and rejected are the wrong way round";
    out.fix = "dataset_columns: {chosen: rejected, rejected: chosen}";
    out.cost = "the run learns the wrong answers";
    return out;
  }
  return std::nullopt;
}

}  // namespace

Verdicts check_sides(const train::RunView& run) {
  if (!run.has_pairs()) return {};
  const std::vector<FirstRow> first = read_first_rows(run, kPairRows);
  const std::vector<RowTexts> texts = texts_of(first, run.plan.dataset_text_field);
  const std::vector<TextSides> rows = sides_of(texts);
  if (rows.size() < kLeastPairs) return {};
  Verdicts out;
  for (std::optional<Verdict>& one :
       std::array{check_scores(rows), check_gold(rows), check_refusals(rows), check_blank(rows, true),
                  check_blank(rows, false), check_one_text(rows)}) {
    if (one) out.push_back(*std::move(one));
  }
  if (out.empty()) {
    out.push_back({.code = "PREF-05",
                   .what = "nothing in the texts of the first " +
                           format::counted(static_cast<std::int64_t>(rows.size()), "pair") +
                           " says that chosen and rejected are the wrong way round"});
  }
  return out;
}

}  // namespace hone::doctor
