// What a run would say of its first rows, before anything is opened for training: `hone check`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/plan.h"
#include "train/opening/open_model.h"

namespace hone::train {

inline constexpr std::int64_t kExaminedRows = 64;

struct RowExam {
  std::int64_t rows = 0;                   // that were looked at
  std::vector<std::string> notes;          // those of the start page that are about rows
  std::optional<base::UserError> refused;  // what ends the run's start
};

// The tokenizer that the run reads, as open_text() takes it: the adapters' where they changed the vocabulary.
// Empty: the model's own, also where the model cannot be opened.
base::fs::path tokenizer_of_run(const config::Plan& plan);

// Reads and tokenizes the first kExaminedRows training rows as the method does. An error about a data set as
// a whole counts only where these are all of its rows.
RowExam examine_rows(const config::Plan& plan, const OpenedText& text);

}  // namespace hone::train
