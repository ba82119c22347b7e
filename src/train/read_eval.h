// The rows to evaluate: of one data set, or of several one after another.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/row_files.h"
#include "config/plan.h"
#include "train/run_data.h"

namespace hone::train {

// Appends the rows of `more`, and their sets.
void append(ExampleData& to, ExampleData more);
void append(PairData& to, PairData more);

inline std::int64_t rows_in(const ExampleData& data) {
  return static_cast<std::int64_t>(data.rows.size());
}
inline std::int64_t rows_in(const PairData& data) {
  return static_cast<std::int64_t>(data.pairs.size());
}

// `read(files)` gives a Data of one set. Empty: nothing is evaluated.
template <typename Data, typename Read>
std::optional<Data> read_eval(const config::DataPlan& plan, const Read& read) {
  if (plan.dataset_test.empty()) return std::nullopt;
  std::vector<config::EvalSet> sets = plan.eval_sets;
  if (sets.empty()) sets = {{.name = "", .rows = plan.eval_rows}};
  std::optional<Data> out;
  for (const config::EvalSet& set : sets) {
    Data one = read(set.rows);
    one.sets = {{.name = set.name, .rows = rows_in(one)}};
    if (out) {
      append(*out, std::move(one));
    } else {
      out = std::move(one);
    }
  }
  return out;
}

}  // namespace hone::train
