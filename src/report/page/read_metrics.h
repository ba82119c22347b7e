// metrics.jsonl as series, read while a run writes it: each call reads what was added since the one before.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "report/page/series.h"

namespace hone::report {

// Names of a line's block `performance` begin with this. The seconds of steps and of their parts are of one step: the file
// has them for all steps since the last log. Those of evaluations and checkpoints stay.
inline constexpr std::string_view kPerformancePrefix = "performance/";

struct RunMetrics {
  std::vector<std::pair<std::string, Series>> series;  // in the order in which the file names them
  std::int64_t lines = 0;                              // read and understood
  // Lines that are no JSON object with a step, or of an earlier step than the line before.
  std::int64_t skipped = 0;
  bool unfinished = false;  // the last line has no end: being written, or cut off
  std::int64_t last_step = 0;
  double last_epoch = 0;
  // Seconds that steps, evaluations and checkpoints took, of every process that the run had.
  double step_seconds = 0, evaluation_seconds = 0, save_seconds = 0;
  double tokens = 0, token_seconds = 0;  // tokens that were trained on, and the seconds of these steps
  base::Json end;                        // the record of a finished run; null: none

  const Series* find(std::string_view name) const;  // null: the run does not have it
};

class MetricsReader {
 public:
  explicit MetricsReader(base::fs::path path) : path_(std::move(path)) {}

  // UserError when the file is not there or cannot be read. A file that became shorter is read again from its beginning.
  const RunMetrics& read();
  const RunMetrics& metrics() const { return metrics_; }

 private:
  void take_line(const std::string& line);
  void take_numbers(const base::Json& record, std::int64_t step);
  void take_performance(const base::Json& block, std::int64_t step);
  void add(const std::string& name, std::int64_t step, double value);

  base::fs::path path_;
  std::uintmax_t read_to_ = 0;
  RunMetrics metrics_;
  std::unordered_map<std::string, std::size_t> index_;
};

// A line of JSON; null when it is no object. Bytes that are not UTF-8 are read as U+FFFD.
base::Json read_record(std::string_view line);

}  // namespace hone::report
