#include "report/page/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/error.h"
#include "base/strings/printable.h"

namespace hone::report {

using base::Json;

namespace {

constexpr std::string_view kEvaluationFormat = "hone-evaluation-1";
constexpr std::string_view kError = "_stderr";
constexpr std::array<const char*, 5> kHeadings = {"task", "shots", "metric", "value", "error"};

std::string text_field(const Json& json, const char* name) {
  return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : "";
}

// The keys of a task's numbers are "metric,filter", and "metric_stderr,filter" beside it.
void add_rows(const std::string& task, const Json& numbers, std::int64_t shots,
              std::vector<EvaluationRow>& out) {
  for (const auto& [key, value] : numbers.items()) {
    const std::size_t comma = key.find(',');
    const std::string metric = key.substr(0, comma);
    if (comma == std::string::npos || !value.is_number() || metric.ends_with(kError)) continue;
    EvaluationRow row{.task = task,
                      .metric = metric,
                      .filter = key.substr(comma + 1),
                      .shots = shots,
                      .value = value.get<double>(),
                      .error = {}};
    const auto error = numbers.find(metric + std::string(kError) + key.substr(comma));
    if (error != numbers.end() && error->is_number()) row.error = error->get<double>();
    if (row.filter == "none") row.filter.clear();
    out.push_back(std::move(row));
  }
}

Json json_of(const EvaluationRow& row) {
  return {{"task", row.task},   {"metric", row.metric}, {"filter", row.filter},
          {"shots", row.shots}, {"value", row.value},   {"error", row.error ? Json(*row.error) : Json()}};
}

std::array<std::string, 5> cells_of(const EvaluationRow& row) {
  return {base::printable(row.task), std::to_string(row.shots),
          base::printable(row.metric + (row.filter.empty() ? "" : " (" + row.filter + ")")),
          fmt::format("{:.4f}", row.value), row.error ? fmt::format("{:.4f}", *row.error) : ""};
}

}  // namespace

std::vector<EvaluationRow> rows_of_lm_eval(const Json& results, const std::string& where) {
  std::vector<EvaluationRow> out;
  if (results.is_object() && results.contains("results") && results["results"].is_object()) {
    for (const auto& [task, numbers] : results["results"].items()) {
      if (!numbers.is_object()) continue;
      const Json shots = results.value("n-shot", Json::object()).value(task, Json(0));
      add_rows(task, numbers, shots.is_number_integer() ? shots.get<std::int64_t>() : 0, out);
    }
  }
  if (!out.empty()) return out;
  throw base::UserError({.where = where,
                         .expected = "results of lm-eval, with a number for each task",
                         .found = "none",
                         .cause = "this version of lm-eval writes another form",
                         .fix = "pip install 'lm-eval[api]==0.4.13'"});
}

std::string evaluation_table(const std::vector<EvaluationRow>& rows) {
  std::vector<std::array<std::string, 5>> lines(1);
  std::copy(kHeadings.begin(), kHeadings.end(), lines[0].begin());
  std::transform(rows.begin(), rows.end(), std::back_inserter(lines), &cells_of);
  std::array<std::size_t, 5> widths{};
  for (const auto& line : lines)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < widths.size(); ++i) text += fmt::format("{:<{}}  ", line[i], widths[i]);
    text.resize(text.find_last_not_of(' ') + 1);
    out += (out.empty() ? "" : "\n") + text;
  }
  return out;
}

void write_evaluation(const base::fs::path& folder, const Evaluation& evaluation) {
  Json out = {{"format", kEvaluationFormat},
              {"model", evaluation.model},
              {"harness", evaluation.harness},
              {"time", evaluation.time},
              {"rows", Json::array()}};
  for (const EvaluationRow& row : evaluation.rows) out["rows"].push_back(json_of(row));
  base::write_file_atomic(folder / kEvaluationFile, base::dump_json(out, 2) + "\n");
}

std::optional<Evaluation> read_evaluation(const base::fs::path& folder) {
  const base::fs::path file = folder / kEvaluationFile;
  std::error_code none;
  if (!base::fs::is_regular_file(file, none)) return {};
  try {
    const Json json = base::parse_json(base::read_text(file), file.string());
    if (!json.is_object() || text_field(json, "format") != kEvaluationFormat) return {};
    Evaluation out{.model = text_field(json, "model"),
                   .harness = text_field(json, "harness"),
                   .time = json.value("time", std::int64_t{0}),
                   .rows = {}};
    for (const Json& row : json.value("rows", Json::array())) {
      if (!row.is_object() || !row.contains("value") || !row["value"].is_number()) continue;
      out.rows.push_back({.task = text_field(row, "task"),
                          .metric = text_field(row, "metric"),
                          .filter = text_field(row, "filter"),
                          .shots = row.value("shots", std::int64_t{0}),
                          .value = row["value"].get<double>(),
                          .error = {}});
      if (row.contains("error") && row["error"].is_number())
        out.rows.back().error = row["error"].get<double>();
    }
    return out;
  } catch (const std::exception&) {  // it cannot be read
    return {};
  }
}

}  // namespace hone::report
