// hone-evaluation.json in a folder: what `hone eval` measured there last, by the harness lm-eval. A run's page shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"

namespace hone::report {

inline constexpr const char* kEvaluationFile = "hone-evaluation.json";

struct EvaluationRow {
  std::string task, metric, filter;  // "gsm8k", "exact_match", "strict-match"; the filter "none" is empty
  std::int64_t shots = 0;            // examples before each question
  double value = 0;
  std::optional<double> error;  // standard error
  bool operator==(const EvaluationRow&) const = default;
};

struct Evaluation {
  std::string model, harness;  // as it was called; "lm-eval 0.4.13"
  std::int64_t time = 0;       // seconds since 1970
  std::vector<EvaluationRow> rows;
  bool operator==(const Evaluation&) const = default;
};

// Rows of a results_*.json of lm-eval, tasks in its order. UserError, which names `where`, for another file.
std::vector<EvaluationRow> rows_of_lm_eval(const base::Json& results, const std::string& where);

// A line of headings and a line for each row, in columns; no line end behind the last.
std::string evaluation_table(const std::vector<EvaluationRow>& rows);

void write_evaluation(const base::fs::path& folder, const Evaluation& evaluation);
// Nothing where there is no such file, or where it cannot be read.
std::optional<Evaluation> read_evaluation(const base::fs::path& folder);

}  // namespace hone::report
