#include "doctor/checks/first_rows.h"

#include <utility>

#include "base/error.h"
#include "data/files/row_source.h"

namespace hone::doctor {

using base::Json;

namespace {

std::vector<FirstRow> first_of_files(const train::RunView& run, const base::RowFiles& files,
                                     std::int64_t most) {
  std::vector<FirstRow> out;
  try {
    const data::RowSource source(train::rows_for(run.text->tokenizer, run.plan, files));
    data::RowNames names(source.path());
    source.for_first(most, names, [&](Json row, int number) {
      out.push_back({.row = std::move(row), .where = names.of(number)});
    });
  } catch (const base::UserError&) {
    out.clear();
  }
  return out;
}

}  // namespace

std::vector<FirstRow> read_first_rows(const train::RunView& run, std::int64_t most) {
  if (run.plan.dataset_name.empty() || !run.plan.policy.replay.empty()) return {};
  return first_of_files(run, run.plan.train_rows, most);
}

std::vector<FirstRow> read_first_rows_of_set(const train::RunView& run, std::size_t set, std::int64_t most) {
  base::RowFiles one = run.plan.train_rows;
  one.sets = {run.plan.train_rows.sets.at(set)};
  one.test_split.reset();  // its sides are of all sets
  return first_of_files(run, one, most);
}

std::vector<FirstRow> read_first_eval_rows(const train::RunView& run, std::int64_t most) {
  if (run.plan.eval_rows.files().empty()) return {};
  return first_of_files(run, run.plan.eval_rows, most);
}

std::vector<Json> conversations_of(const Json& row) {
  std::vector<Json> out;
  for (const char* const name : {"messages", "conversations", "prompt", "completion", "chosen", "rejected"}) {
    const auto found = row.find(name);
    if (found != row.end() && found->is_array() && !found->empty() && (*found)[0].is_object())
      out.push_back(*found);
  }
  return out;
}

std::string content_of(const Json& message) {
  for (const char* const name : {"content", "value"}) {
    const auto found = message.find(name);
    if (found != message.end() && found->is_string()) return found->get<std::string>();
  }
  return "";
}

}  // namespace hone::doctor
