// The first rows of the training data as they are in their file, for checks that look at texts and not at tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "train/opening/run_view.h"

namespace hone::doctor {

struct FirstRow {
  base::Json row;
  std::string where;  // "train.jsonl:12"
};

// At most `most`; none where the run reads no rows, or they cannot be read again.
std::vector<FirstRow> read_first_rows(const train::RunView& run, std::int64_t most);
// Reads the same of the evaluation; where there are several sets, the first ones.
std::vector<FirstRow> read_first_eval_rows(const train::RunView& run, std::int64_t most);

// Reads the same of each set of a mixture, by its place in plan.train_rows.sets.
std::vector<FirstRow> read_first_rows_of_set(const train::RunView& run, std::size_t set, std::int64_t most);

// The lists of messages of a row, by the names of its columns; none in a row of texts.
std::vector<base::Json> conversations_of(const base::Json& row);

// The text of a message; empty where it is no text.
std::string content_of(const base::Json& message);

}  // namespace hone::doctor
