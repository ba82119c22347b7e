#include <map>
#include <optional>
#include <utility>

#include "doctor/checks/check_format.h"
#include "doctor/checks/check_parts.h"
#include "doctor/checks/row_texts.h"
#include "doctor/checks/word_prints.h"

namespace hone::doctor {

namespace {

constexpr double kOverlapWarn = 0.01;  // of the rows to evaluate; below it an average hardly moves
constexpr double kNearWarn = 0.1;      // of those that are looked at, whose words are those of a training row
constexpr std::int64_t kNearRows = 500, kNearTrained = 20'000;
constexpr std::int64_t kUsualPrompt = 5;  // rows: a prompt of more of them is the task's, not a row's
constexpr std::size_t kWordBytes = 6;     // of all words of a row: less says nothing

// What a row asks, or all of it where it is one text.
std::string asked_words(const RowTexts& row) {
  if (row.prompt) return words_of(*row.prompt);
  return row.text ? words_of(*row.text) : "";
}

// DATA-11 of rows whose tokens differ: other spaces, other case, another answer to the same prompt.
std::optional<base::Verdict> check_near_copies(const train::RunView& run) {
  const std::vector<FirstRow> eval = read_first_eval_rows(run, kNearRows);
  if (eval.empty()) return std::nullopt;
  const std::vector<FirstRow> train = read_first_rows(run, kNearTrained);
  std::map<std::string, std::pair<std::int64_t, std::string>> trained;  // rows, and the first of them
  std::vector<std::string> all, places;
  for (const RowTexts& row : texts_of(train, run.plan.dataset_text_field)) {
    all.push_back(asked_words(row));
    places.push_back(row.where);
    auto& entry = trained[all.back()];
    if (entry.first++ == 0) entry.second = row.where;
  }
  const std::size_t train_rows = all.size();
  const std::vector<RowTexts> asked = texts_of(eval, run.plan.dataset_text_field);
  for (const RowTexts& row : asked) all.push_back(asked_words(row));
  const auto twins = near_twins(all);
  std::int64_t near = 0, same = 0;
  std::string first;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const std::string& words = all[train_rows + i];
    const auto found = trained.find(words);
    const auto& twin = twins[train_rows + i];
    const bool equal =
        words.size() >= kWordBytes && found != trained.end() && found->second.first <= kUsualPrompt;
    if (!equal && (!twin || *twin >= train_rows || found != trained.end())) continue;
    same += equal ? 1 : 0;
    if (near++ == 0)
      first = asked[i].where + " and " + (equal ? found->second.second : places[*twin]) + ": `" +
              format::shown(words) + "`";
  }
  const auto looked = static_cast<std::int64_t>(eval.size());
  if (static_cast<double>(near) <= kNearWarn * static_cast<double>(looked)) return std::nullopt;
  base::Verdict out{.code = "DATA-11", .level = base::Level::kWarn};
  out.what = std::to_string(near) + " of the first " + format::counted(looked, "row") +
             " to evaluate ask what a training row asks, in " +
             (2 * same >= near ? "the same words" : "nearly the same words");
  out.evidence = first;
  out.cause =
      "suspected: a random split of rows, several of which have the same prompt; or copies with other spaces or case";
  out.not_this = "copies token by token: these are told apart from them";
  out.fix = "split by prompt, so that all rows of a prompt are on one side";
  out.cost = "the evaluation improves while the model only memorizes";
  return out;
}

}  // namespace

Verdicts check_evaluation(const train::RunView& run) {
  const train::EvalOverlap& overlap = run.start.overlap;
  if (overlap.rows == 0) return {};
  const bool copies = static_cast<double>(overlap.trained) > kOverlapWarn * static_cast<double>(overlap.rows);
  if (!copies) {
    if (auto near = check_near_copies(run)) return {*std::move(near)};
  }
  base::Verdict out{.code = "DATA-11"};
  const std::string rows = format::counted(overlap.rows, run.samples() ? "prompt" : "row");
  out.what = "the evaluation is held out: none of its " + rows + " is in the training data";
  if (overlap.trained == 0) return {out};
  const bool few = static_cast<double>(overlap.trained) <= kOverlapWarn * static_cast<double>(overlap.rows);
  out.level = few ? base::Level::kNote : base::Level::kWarn;
  out.what = std::to_string(overlap.trained) + " of " + rows + " to evaluate are in the training data too";
  out.evidence = "the same tokens; the first is " + overlap.first;
  out.cause = overlap.trained == overlap.rows
                  ? "suspected: the evaluation file is a part of the training file"
                  : "suspected: duplicates, which a random split puts on both sides";
  out.fix = "remove these rows from one of the two files";
  out.cost = "the evaluation improves while the model only memorizes";
  return {out};
}

}  // namespace hone::doctor
