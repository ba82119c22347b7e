#include "doctor/probes/rewards/reward_columns.h"

#include <algorithm>

#include "base/strings/suggest.h"
#include "doctor/checks/check_format.h"

namespace hone::doctor {

using base::Level;
using base::Verdict;

namespace {

bool some_row_has(const RewardRows& rows, const std::string& column) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const base::Json& columns = rows.row(i).columns;
    if (columns.contains(column) && !columns.at(column).is_null()) return true;
  }
  return false;
}

std::vector<std::string> columns_of(const RewardRows& rows) {
  std::vector<std::string> out;
  if (rows.size() == 0) return out;
  for (const auto& [name, value] : rows.row(0).columns.items()) out.push_back(name);
  return out;
}

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

// The column that was meant, as far as names tell: one of nearly the same name, or that of the right answers.
std::string meant_column(const std::vector<std::string>& absent, const std::vector<std::string>& there,
                         const RewardRows& rows) {
  for (const std::string& name : absent) {
    const std::vector<std::string> near = base::nearest_names(name, there);
    if (!near.empty()) return near.front();
  }
  return format::gold_column(rows.prompts_of_run());
}

}  // namespace

std::vector<std::string> absent_columns(const ReadColumns& read, const RewardRows& rows) {
  std::vector<std::string> out;
  for (const std::string& name : read.looked_up) {
    if (some_row_has(rows, name)) return {};
    out.push_back(name);
  }
  const bool has_another = std::any_of(read.needed.begin(), read.needed.end(),
                                       [&](const std::string& name) { return some_row_has(rows, name); });
  return has_another ? std::vector<std::string>() : out;
}

std::optional<Verdict> judge_absent_columns(const ReadColumns& read, const RewardRows& rows,
                                            ScoresTell scores) {
  const std::vector<std::string> absent = absent_columns(read, rows);
  if (absent.empty()) return std::nullopt;
  const std::vector<std::string> there = columns_of(rows);
  const std::string other = meant_column(absent, there, rows);
  const bool is_gold =
      !other.empty() && std::any_of(absent.begin(), absent.end(),
                                    [](const std::string& name) { return format::is_gold_name(name); });
  Verdict out{.code = "RL-05"};
  out.level = scores != ScoresTell::kSomething || is_gold ? Level::kWarn : Level::kNote;
  out.what = read.reward + " looks up " + (absent.size() == 1 ? "the column " : "the columns ") +
             joined(absent) + ", which the data do not have";
  out.evidence = there.empty() ? "the rows have no column beside the prompt"
                               : "the rows have " + joined(there) + " beside the prompt";
  if (scores == ScoresTell::kNothing)
    out.evidence += "; every answer of the probe got the same score, or none";
  out.cause =
      "its default counts in every row: a parameter without a value, or what get() gives where "
      "nothing is found";
  out.fix = other.empty() ? "add the column to the data, or leave it out of the function"
                          : "read the column " + other + ", or rename it in the data";
  out.cost = scores == ScoresTell::kSomething ? "a score that does not use what it was to compare with"
                                              : "a reward that does not change during the run";
  return out;
}

}  // namespace hone::doctor
