#include "report/reward_output.h"

#include <fmt/format.h>

#include <fstream>
#include <string_view>
#include <system_error>

#include "report/terminal/terminal.h"
#include "report/terminal/text_width.h"
#include "train/saves/run_folder.h"

namespace hone::report {

namespace {

constexpr int kLinesShown = 10;  // of one call
constexpr int kMargin = 10;

std::string samples_text(const train::PrintedFacts& one) {
  if (one.count == 1) return fmt::format("sample {}", one.first);
  return fmt::format("samples {} to {}", one.first, one.first + one.count - 1);
}

// A progress bar writes over its line: its last state counts.
std::string_view last_state(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const std::size_t back = line.rfind('\r');
  return back == std::string_view::npos ? line : line.substr(back + 1);
}

}  // namespace

std::string printed_lines(const std::string& text, int columns, const std::string& whole) {
  std::string out;
  std::int64_t lines = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = last_state(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    if (line.find_first_not_of(" \t") == std::string_view::npos || ++lines > kLinesShown) continue;
    out += std::string(kMargin, ' ') +
           (columns > 2 * kMargin ? fit_line(line, columns - kMargin) : visible_controls(line)) + "\n";
  }
  if (lines > kLinesShown) {
    const std::int64_t left = lines - kLinesShown;
    out += fmt::format("          ... {} more {}{}\n", left, left == 1 ? "line" : "lines",
                       whole.empty() ? "" : " in " + whole);
  }
  return out;
}

RewardOutput::RewardOutput(const base::fs::path& output_dir, std::int64_t first_step)
    : path_(output_dir / train::kRewardLogFile) {
  std::error_code none;
  if (first_step == 0) base::fs::remove(path_, none);
}

// A full disk does not end the run: what was printed is no result.
std::string RewardOutput::take(const train::RolloutFacts& facts, int columns) {
  if (facts.printed.empty()) return "";
  std::ofstream file(path_, std::ios::app);
  std::string out;
  for (const train::PrintedFacts& one : facts.printed) {
    const std::string head = fmt::format("{}, step {}, {}", one.reward, facts.step, samples_text(one));
    file << head << '\n' << one.text << (one.text.ends_with('\n') ? "" : "\n") << std::flush;
    out += "print     " + visible_controls(head) + "\n" + printed_lines(one.text, columns, path_.string());
  }
  return out;
}

}  // namespace hone::report
