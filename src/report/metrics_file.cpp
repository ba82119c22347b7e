#include "report/metrics_file.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace hone::report {

using base::Json;

namespace {

struct EarlierLines {
  std::string text;
  std::optional<std::uintmax_t> end;  // where the record of a run's end begins, when it is the last line
};

bool is_evaluation(const Json& record) {
  return std::any_of(record.items().begin(), record.items().end(),
                     [](const auto& one) { return one.key().starts_with("eval_"); });
}

// The lines of `path` that belong to steps up to `last_step`; of that step without evaluations, if they are
// made again.
EarlierLines lines_until(const base::fs::path& path, std::int64_t last_step, bool evaluates_again) {
  EarlierLines out;
  if (last_step == 0 || !base::fs::exists(path)) return out;
  std::istringstream lines(base::read_text(path));
  for (std::string line; std::getline(lines, line);) {
    const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number()) continue;
    const auto step = record["step"].get<double>(), last = static_cast<double>(last_step);
    if (step > last || (evaluates_again && step == last && is_evaluation(record))) continue;
    out.end = record.contains("train_runtime") ? std::optional(out.text.size()) : std::nullopt;
    out.text += line + "\n";
  }
  return out;
}

}  // namespace

Json metrics_line(const train::LogRecord& record) {
  Json line = {{"step", record.step}, {"epoch", record.epoch}};
  for (const auto& [name, value] : record.values)
    line[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
  return line;
}

MetricsFile::MetricsFile(const base::fs::path& path, std::int64_t first_step, bool evaluates_again) {
  const EarlierLines earlier = lines_until(path, first_step, evaluates_again);
  base::write_file_atomic(path, earlier.text);
  earlier_end_ = earlier.end;
  file_.emplace(path);
}

void MetricsFile::write(const train::LogRecord& record) {
  if (earlier_end_) file_->truncate(*earlier_end_);
  earlier_end_.reset();
  Json line = metrics_line(record);
  for (const auto& [name, value] : record.performance) line["performance"][name] = value;
  file_->append(base::dump_json(line) + "\n");
}

}  // namespace hone::report
