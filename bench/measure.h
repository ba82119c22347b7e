// Clock, repetitions, and how results are said.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"

namespace hone::bench {

double now();  // seconds, monotonic

// Seconds of one repetition.
struct Timing {
  double best = 0, median = 0;
  std::int64_t repetitions = 0;
};

struct Effort {
  double seconds = 0.5;       // stop repeating when this is spent
  std::int64_t at_least = 5;  // but not before
  std::int64_t at_most = 200;
};

// `prepare` runs before each repetition and is not timed; may be empty. The first repetition is left out.
Timing measure(const std::function<void()>& body, const Effort& effort,
               const std::function<void()>& prepare = {});

// Reads more memory than the caches hold, so that what comes next comes from memory.
void flush_caches();

double peak_memory_mb();   // most that was resident (VmHWM)
void reset_peak_memory();  // VmHWM becomes what is resident now, where the kernel allows it

// A Markdown table on stdout. Columns are aligned as text; the first is left-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string fixed(double value, int digits);
std::string percent(double share);

// Writes `json` to the file that --json named; nothing when empty.
void write_json(const std::string& path, const base::Json& json);

}  // namespace hone::bench
