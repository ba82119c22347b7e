#include "report/metrics_file.h"

#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/json.h"

namespace hone::report {

using base::Json;

namespace {

// The lines of `path` that belong to steps up to `last_step`.
std::string lines_until(const base::fs::path& path, std::int64_t last_step) {
  if (last_step == 0 || !base::fs::exists(path)) return "";
  std::istringstream lines(base::read_text(path));
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number()) continue;
    if (record["step"].get<double>() > static_cast<double>(last_step)) continue;
    out += line + "\n";
  }
  return out;
}

}  // namespace

MetricsFile::MetricsFile(const base::fs::path& path, std::int64_t first_step) : path_(path) {
  base::write_file_atomic(path, lines_until(path, first_step));
  file_.open(path, std::ios::app);
}

void MetricsFile::write(const train::LogRecord& record) {
  Json line = {{"step", record.step}, {"epoch", record.epoch}};
  for (const auto& [name, value] : record.values)
    line[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
  file_ << base::dump_json(line) << '\n' << std::flush;
  if (file_) return;
  throw base::UserError({.where = path_.string(),
                         .expected = "room for one more line",
                         .found = "the write failed",
                         .cause = "the disk is full",
                         .fix = "free some space and go on with --resume_from_checkpoint true"});
}

}  // namespace hone::report
