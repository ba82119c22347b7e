#include "train/opening/read_eval.h"

#include <utility>
#include <vector>

namespace hone::train {

void append(RecordData& to, RecordData more) {
  to.rows.append(more.rows, static_cast<std::int64_t>(to.records.size()));
  to.records.append(std::move(more.records));
  for (EvalRange& set : more.sets) to.sets.push_back(std::move(set));
}

std::optional<RecordData> read_eval(const config::DataPlan& plan,
                                    const std::function<RecordData(const base::RowFiles&)>& read) {
  if (plan.dataset_test.empty()) return std::nullopt;
  std::vector<config::EvalSet> sets = plan.eval_sets;
  if (sets.empty()) sets = {{.name = "", .rows = plan.eval_rows}};
  RecordData out;
  for (const config::EvalSet& set : sets) {
    RecordData one = read(set.rows);
    one.sets = {{.name = set.name, .rows = static_cast<std::int64_t>(one.rows.size())}};
    append(out, std::move(one));
  }
  return out;
}

}  // namespace hone::train
