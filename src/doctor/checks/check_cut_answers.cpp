#include "doctor/checks/row_texts.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace hone::doctor {

namespace {

constexpr double kShareAtLimit = 0.05;     // of the rows, at one length; dropoutt's rule
constexpr std::int64_t kLeastAtLimit = 5;  // rows
constexpr std::size_t kLeastLimit = 32;    // shorter answers have one length by chance
constexpr double kOverNeighbors = 4;       // times as many as at a length that is one token away
constexpr double kBehindLimit = 0.02;      // of the rows: behind a limit there is nearly nothing
constexpr double kShortestOfLimit = 0.6;  // of the limit: answers that a template fills in lie close together

const std::string* cut_answer(const RowTexts& row) {
  if (row.completion) return &*row.completion;
  return row.chosen ? &*row.chosen : nullptr;
}

struct AnswerEnds {
  std::int64_t open = 0, all = 0;
  std::set<std::string> texts;  // of the open ones
  std::string where, shown;     // of the first open one
};

std::string end_of_answer(const std::string& text) {
  constexpr std::size_t kShown = 40;
  return text.substr(text.size() - std::min(text.size(), kShown));
}

}  // namespace

bool ends_open(const std::string& text) {
  if (text.empty()) return false;
  std::size_t fences = 0;
  for (std::size_t at = text.find("```"); at != std::string::npos; at = text.find("```", at + 3)) ++fences;
  const auto last = static_cast<unsigned char>(text.back());
  return std::isalnum(last) != 0 || last == ' ' || last == ',' || fences % 2 == 1;
}

std::optional<base::Verdict> check_cut_answers(const std::vector<RowTexts>& rows,
                                               const std::function<std::size_t(const std::string&)>& tokens) {
  std::map<std::size_t, AnswerEnds> lengths;
  for (const RowTexts& row : rows) {
    const std::string* answer = cut_answer(row);
    if (answer == nullptr || answer->empty()) continue;
    AnswerEnds& ends = lengths[tokens(*answer)];
    ends.all += 1;
    if (!ends_open(*answer)) continue;
    if (ends.open == 0) ends.where = row.where, ends.shown = end_of_answer(*answer);
    ends.open += 1;
    ends.texts.insert(*answer);
  }
  const auto most = std::max_element(lengths.begin(), lengths.end(), [](const auto& one, const auto& other) {
    return one.second.open < other.second.open;
  });
  if (most == lengths.end() || most->first < kLeastLimit || most->second.open < kLeastAtLimit)
    return std::nullopt;
  const auto& [limit, cut] = *most;
  const auto whole = static_cast<double>(rows.size()), count = static_cast<double>(cut.open);
  std::int64_t longer = 0;
  for (auto one = std::next(most); one != lengths.end(); ++one) longer += one->second.all;
  const auto beside = [&](std::size_t length) {
    const auto found = lengths.find(length);
    return found == lengths.end() ? 0.0 : static_cast<double>(found->second.all);
  };
  const bool spread =
      static_cast<double>(lengths.begin()->first) <= kShortestOfLimit * static_cast<double>(limit);
  const bool stands_out = count >= kOverNeighbors * std::max(beside(limit - 1), beside(limit + 1));
  if (count < kShareAtLimit * whole || static_cast<double>(longer) > kBehindLimit * whole || !spread ||
      !stands_out || 2 * static_cast<std::int64_t>(cut.texts.size()) < cut.open)
    return std::nullopt;
  base::Verdict out{.code = "DATA-16", .level = base::Level::kWarn};
  out.what = of_first(cut.open, rows.size(), "row") + " have an answer of " + std::to_string(limit) +
             " tokens that ends within a sentence, and hardly any is longer";
  out.evidence = cut.where + ": ... " + cut.shown;
  out.cause = "suspected: the answers were generated with max_tokens " + std::to_string(limit);
  out.not_this = "max_length: these are the rows as they are in the file";
  out.fix = "generate these answers again with a higher limit, or remove the rows";
  out.cost = "a model that stops within a sentence";
  return out;
}

}  // namespace hone::doctor
