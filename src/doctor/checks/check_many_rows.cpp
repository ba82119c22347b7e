// Checks of many rows together: they are read once (5,000 of them), and each check looks at all.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "doctor/checks/benchmark_prints.h"
#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "doctor/checks/row_rules.h"
#include "doctor/checks/row_texts.h"
#include "doctor/checks/word_prints.h"
#include "doctor/number_format.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

constexpr std::int64_t kManyRows = 5000;
constexpr std::size_t kLeastManyRows = 8;
constexpr double kTwinsNote = 0.05, kTwinsWarn = 0.2;
constexpr double kInside = 0.8;            // of the smaller set's prompts
constexpr std::size_t kLeastPrompts = 16;  // of that set
constexpr std::size_t kOpeningWords = 8;
constexpr double kOneOpening = 0.2;
constexpr std::size_t kLeastAnswers = 50;
constexpr std::size_t kTokenized = 1000;  // rows whose answers are counted in tokens

using ManyRows = std::vector<RowTexts>;

// ---- DATA-13: rows that nearly repeat another one
std::optional<Verdict> check_twins(const ManyRows& rows) {
  std::vector<std::string> texts, words;
  for (const RowTexts& row : rows) {
    const std::string* const answer = answer_text(row);
    texts.push_back(row.text ? *row.text
                             : row.prompt.value_or("") + "\n" + (answer != nullptr ? *answer : ""));
    words.push_back(words_of(texts.back()));
  }
  const auto twins = near_twins(words);
  std::int64_t count = 0;
  std::string first;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!twins[i] || texts[i] == texts[*twins[i]]) continue;  // copies are counted by their tokens
    if (count++ == 0)
      first = rows[i].where + " and " + rows[*twins[i]].where + ": `" + format::shown(words[i]) + "`";
  }
  const double part = share(count, static_cast<std::int64_t>(rows.size()));
  if (part <= kTwinsNote) return std::nullopt;
  Verdict out{.code = "DATA-13", .level = part > kTwinsWarn ? Level::kWarn : Level::kNote};
  out.what = of_first(count, rows.size(), "row") + " nearly repeat another one";
  out.evidence = first + "; at least 0.8 of their runs of five words are the same";
  out.cause = "suspected: rows that were made from one another, or one page that was read several times";
  out.not_this = "the task's own wording: runs of words that a tenth of the rows have do not count";
  out.fix = "keep one of each, unless these rows are meant to count more";
  out.cost = "they are learned as often as they are there, and a random split puts them on both sides";
  return out;
}

// ---- DATA-13: one set of a mixture inside another
std::set<std::string> prompts_of_set(const train::RunView& run, std::size_t set) {
  std::set<std::string> out;
  const std::vector<FirstRow> rows = read_first_rows_of_set(run, set, kManyRows);
  for (const RowTexts& row : texts_of(rows, run.plan.dataset_text_field)) {
    std::string words = words_of(row.text ? *row.text : row.prompt.value_or(""));
    if (!words.empty()) out.insert(std::move(words));
  }
  return out;
}

Verdicts check_sets(const train::RunView& run) {
  const auto& sets = run.plan.train_rows.sets;
  Verdicts out;
  if (sets.size() < 2 || sets.size() > 16) return out;
  std::vector<std::set<std::string>> prompts;
  for (std::size_t i = 0; i < sets.size(); ++i) prompts.push_back(prompts_of_set(run, i));
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (std::size_t k = 0; k < sets.size(); ++k) {
      const bool smaller =
          prompts[i].size() < prompts[k].size() || (prompts[i].size() == prompts[k].size() && i < k);
      if (i == k || !smaller || prompts[i].size() < kLeastPrompts) continue;
      const auto both = static_cast<std::int64_t>(std::ranges::count_if(
          prompts[i], [&](const std::string& one) { return prompts[k].contains(one); }));
      const double part = share(both, static_cast<std::int64_t>(prompts[i].size()));
      if (part <= kInside) continue;
      Verdict found{.code = "DATA-13", .level = Level::kWarn};
      found.what = "the set " + sets[i].name + " is inside the set " + sets[k].name;
      found.evidence = std::to_string(both) + " of its " +
                       format::counted(static_cast<std::int64_t>(prompts[i].size()), "prompt") + " (" +
                       format::percent(part, 1) + ") are there too, of the first " +
                       std::to_string(kManyRows) + " rows of each";
      found.cause = "suspected: a collection that took the other set in";
      found.fix = "leave out one of the two";
      found.cost = "its weight in the mixture counts twice";
      out.push_back(std::move(found));
    }
  }
  return out;
}

// ---- DATA-16: answers that begin alike
std::optional<Verdict> check_openings(const ManyRows& rows) {
  std::map<std::string, std::int64_t> openings;
  std::int64_t answers = 0;
  for (const RowTexts& row : rows) {
    const std::string* const answer = answer_text(row);
    if (answer == nullptr || row.text) continue;
    std::string words = words_of(answer->substr(0, 400));
    std::size_t end = 0;
    for (std::size_t i = 0; i < kOpeningWords && end != std::string::npos; ++i)
      end = words.find(' ', i == 0 ? 0 : end + 1);
    answers += 1;
    if (end != std::string::npos) openings[words.substr(0, end)] += 1;
  }
  if (answers < static_cast<std::int64_t>(kLeastAnswers)) return std::nullopt;
  const auto most = std::ranges::max_element(openings, {}, [](const auto& one) { return one.second; });
  if (most == openings.end() || share(most->second, answers) <= kOneOpening) return std::nullopt;
  Verdict out{.code = "DATA-16", .level = Level::kNote};
  out.what = std::to_string(most->second) + " of " + format::counted(answers, "answer") +
             " begin with the same eight words";
  out.evidence = "`" + format::shown(most->first) + "`";
  out.cause = "a form of the answers, or boilerplate of what wrote them";
  out.fix = "nothing where it is a form; else cut it off";
  return out;
}

}  // namespace

Verdicts check_many_rows(const train::RunView& run) {
  const std::vector<FirstRow> first = read_first_rows(run, kManyRows);
  const ManyRows rows = texts_of(first, run.plan.dataset_text_field);
  Verdicts out;
  if (rows.size() < kLeastManyRows) return out;
  append(out, judge_rows(private_rules(), rows));
  if (out.empty())
    out.push_back({.code = "DATA-17",
                   .what = "no secret and no personal data are known by their form in the first " +
                           format::counted(static_cast<std::int64_t>(rows.size()), "row")});
  static const std::vector<Benchmark> kBenchmarks = read_benchmarks(kBenchmarkPrints);
  append(out, judge_benchmarks(kBenchmarks, rows));
  if (run.samples()) return out;
  append(out, judge_rows(row_rules(), rows));
  const ManyRows counted(rows.begin(),
                         rows.begin() + static_cast<std::ptrdiff_t>(std::min(rows.size(), kTokenized)));
  const auto tokens = [&run](const std::string& text) {
    return run.text->tokenizer.encode(text, false).ids.size();
  };
  for (std::optional<Verdict>& one :
       std::array{check_twins(rows), check_openings(rows), check_cut_answers(counted, tokens)}) {
    if (one) out.push_back(*std::move(one));
  }
  append(out, check_sets(run));
  return out;
}

}  // namespace hone::doctor
