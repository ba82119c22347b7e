#include "bench/measure.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "base/files/file.h"
#include "base/process/process_memory.h"

namespace hone::bench {

namespace {

constexpr std::int64_t kFlushBytes = 128LL << 20;  // several times the L3 of one socket's share

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Timing measure(const std::function<void()>& body, const Effort& effort,
               const std::function<void()>& prepare) {
  std::vector<double> seconds;
  const double start = now();
  for (std::int64_t i = 0; i <= effort.at_most; ++i) {
    if (prepare) prepare();
    const double before = now();
    body();
    const double after = now();
    if (i > 0) seconds.push_back(after - before);
    if (i >= effort.at_least && after - start > effort.seconds) break;
  }
  std::sort(seconds.begin(), seconds.end());
  return {.best = seconds.front(),
          .median = seconds[seconds.size() / 2],
          .repetitions = static_cast<std::int64_t>(seconds.size())};
}

void flush_caches() {
  static const at::Tensor other = at::ones({kFlushBytes / 8}, at::kLong);
  volatile std::int64_t sink = other.sum().item<std::int64_t>();
  static_cast<void>(sink);
}

double peak_memory_mb() {
  return static_cast<double>(base::process_memory().peak) / (1 << 20);
}

void reset_peak_memory() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

void Table::print() const {
  std::vector<std::size_t> width;
  for (const auto& row : rows_) {
    width.resize(std::max(width.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      width[i] = std::max({width[i], row[i].size(), std::size_t{3}});
  }
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::cout << '|';
    for (std::size_t i = 0; i < rows_[r].size(); ++i) {
      const std::string space(width[i] - rows_[r][i].size(), ' ');
      std::cout << ' ' << (i == 0 ? rows_[r][i] + space : space + rows_[r][i]) << " |";
    }
    std::cout << '\n';
    if (r > 0) continue;
    std::cout << '|';
    for (std::size_t i = 0; i < width.size(); ++i) {
      std::cout << ' ' << std::string(width[i] - (i == 0 ? 0 : 1), '-') << (i == 0 ? " |" : ": |");
    }
    std::cout << '\n';
  }
  std::cout << std::endl;
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string percent(double share) {
  return fixed(100 * share, 0) + " %";
}

void write_json(const std::string& path, const base::Json& json) {
  if (!path.empty()) base::write_file_atomic(path, base::dump_json(json, 2) + "\n");
}

}  // namespace hone::bench
