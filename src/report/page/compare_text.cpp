#include "report/page/compare_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "base/files/file.h"
#include "base/strings/plural.h"
#include "report/terminal/text_width.h"
#include "report/terminal/wrap_text.h"

namespace hone::report {

namespace {

using Number = std::optional<double>;

// Different in any two runs, and says nothing of what is trained.
const std::set<std::string, std::less<>> kPlaces = {"output_dir", "run_name", "resume_from_checkpoint",
                                                    "overwrite_output_dir"};

enum class Unit { kNumber, kCount, kBytes, kSeconds };

struct ResultRow {
  std::string name;
  Number first, second;
  Unit unit = Unit::kNumber;
};

std::string shown_number(Number value, Unit unit) {
  if (!value) return "-";
  if (unit == Unit::kBytes) return base::gigabytes(static_cast<std::int64_t>(*value));
  if (unit == Unit::kSeconds) return human_seconds(*value);
  if (unit == Unit::kCount) return human_count(std::llround(*value));
  return fmt::format("{:.4g}", *value);
}

std::string shown_change(const ResultRow& row) {
  if (!row.first || !row.second) return "";
  if (*row.first == *row.second) return "equal";
  if (row.unit == Unit::kNumber) return fmt::format("{:+.3g}", *row.second - *row.first);
  if (*row.first == 0) return "";
  return fmt::format("{:+.0f} %", 100 * (*row.second / *row.first - 1));
}

using Get = std::optional<Series::Point> (Series::*)() const;

Number value_of(const PageRun& run, std::string_view name, Get get) {
  const Series* const series = run.metrics->find(name);
  if (series == nullptr) return std::nullopt;
  const auto point = (series->*get)();
  return point ? Number(point->value) : std::nullopt;
}

bool ends_with_any(std::string_view name, const std::vector<std::string_view>& ends) {
  return std::ranges::any_of(ends, [name](std::string_view end) { return name.ends_with(end); });
}

// Numbers of which there is a best one. The loss of a policy gradient is none.
bool has_best(std::string_view name, bool by_rewards) {
  if (name.ends_with("loss")) return !by_rewards;
  return ends_with_any(name, {"reward", "scores", "accuracies", "accuracy", "margins"});
}

// Of an evaluation: how long it took is not its result, and for details there is the page.
bool is_result(std::string_view name) {
  if (!name.starts_with("eval_") || name.find("clip_ratio/") != std::string_view::npos ||
      name.find("logps/") != std::string_view::npos || name.find("logits/") != std::string_view::npos)
    return false;
  return !ends_with_any(name, {"runtime", "_per_second", "num_tokens", "std", "min_length", "max_length",
                               "terminated_length", "ratio_gap", "skipped_rows"});
}

std::vector<std::string> named_results(const PageRun& first, const PageRun& second) {
  std::vector<std::string> out = {
      "loss", "reward",  "objective/scores",       "rewards/accuracies", "accuracy", "mean_token_accuracy",
      "kl",   "entropy", "completions/mean_length"};
  for (const PageRun* run : {&first, &second}) {
    for (const auto& [name, series] : run->metrics->series) {
      if (is_result(name) && std::ranges::find(out, name) == out.end()) out.push_back(name);
    }
  }
  return out;
}

std::vector<ResultRow> result_rows(const PageRun& first, const PageRun& second) {
  const RunMetrics &a = *first.metrics, &b = *second.metrics;
  const auto count = [](std::int64_t value) { return Number(static_cast<double>(value)); };
  const auto positive = [](double value) { return value > 0 ? Number(value) : std::nullopt; };
  const bool by_rewards = a.find("reward") != nullptr || b.find("reward") != nullptr;
  std::vector<ResultRow> out = {{"steps", count(a.last_step), count(b.last_step), Unit::kCount}};
  for (const std::string& name : named_results(first, second)) {
    const Number last_a = value_of(first, name, &Series::last),
                 last_b = value_of(second, name, &Series::last);
    if (!last_a && !last_b) continue;
    out.push_back({name, last_a, last_b});
    const Get best = name.ends_with("loss") ? &Series::lowest : &Series::highest;
    if (has_best(name, by_rewards))
      out.push_back({"  best", value_of(first, name, best), value_of(second, name, best)});
  }
  const auto add = [&out](std::string name, Number x, Number y, Unit unit) {
    if (x || y) out.push_back({std::move(name), x, y, unit});
  };
  const auto rate = [](const RunMetrics& run) {
    return run.token_seconds > 0 ? Number(run.tokens / run.token_seconds) : std::nullopt;
  };
  const std::string peak = std::string(kPerformancePrefix) + "memory_peak";
  add("tokens", value_of(first, "num_tokens", &Series::last), value_of(second, "num_tokens", &Series::last),
      Unit::kCount);
  add("tokens a second", rate(a), rate(b), Unit::kCount);
  add("memory, peak", value_of(first, peak, &Series::highest), value_of(second, peak, &Series::highest),
      Unit::kBytes);
  add("time of steps", positive(a.step_seconds), positive(b.step_seconds), Unit::kSeconds);
  add("time of evaluations", positive(a.evaluation_seconds), positive(b.evaluation_seconds), Unit::kSeconds);
  return out;
}

const PagePlanRow* row_named(const std::vector<PagePlanRow>& plan, const std::string& name) {
  const auto at = std::ranges::find(plan, name, &PagePlanRow::name);
  return at == plan.end() ? nullptr : &*at;
}

std::string run_line(char letter, const PageRun& run) {
  std::string out = fmt::format("{}         {}\n          ", letter, visible_controls(run.name));
  if (!run.method.empty()) out += run.method + ", ";
  out += fmt::format("{}, step {}", end_name(run.facts.end), human_count(run.metrics->last_step));
  if (run.facts.total_steps > 0) out += " of " + human_count(run.facts.total_steps);
  if (run.metrics->skipped > 0)
    out += fmt::format("; {} left out", base::counted(run.metrics->skipped, "line that cannot be read",
                                                      "lines that cannot be read"));
  return out + "\n";
}

std::string option_lines(const PageRun& first, const PageRun& second, std::size_t columns) {
  if (first.plan.empty() || second.plan.empty())
    return "options   not compared: a plan.yaml is missing or cannot be read\n";
  constexpr std::size_t kValueIndent = 14;
  std::string out;
  std::size_t all = 0, different = 0;
  const auto line = [columns](char letter, const PagePlanRow* row) {
    const std::string value = row == nullptr ? "not an option of it" : visible_controls(row->value);
    return fmt::format("            {} {}\n", letter, wrap_text(value, kValueIndent, columns));
  };
  const auto add = [&](const PagePlanRow* a, const PagePlanRow* b) {
    ++all;
    if (kPlaces.contains((a != nullptr ? a : b)->name)) return;
    if (a != nullptr && b != nullptr && a->value == b->value) return;
    ++different;
    out += fmt::format("          {}\n", (a != nullptr ? a : b)->name) + line('a', a) + line('b', b);
  };
  for (const PagePlanRow& row : first.plan) add(&row, row_named(second.plan, row.name));
  for (const PagePlanRow& row : second.plan) {
    if (row_named(first.plan, row.name) == nullptr) add(nullptr, &row);
  }
  if (different == 0) return fmt::format("options   equal, all {} but the runs' places\n", all);
  return fmt::format("options   {} of {} differ\n", different, all) + out;
}

}  // namespace

std::string compare_text(const PageRun& first, const PageRun& second, const Terminal& terminal) {
  const std::size_t columns = page_columns(terminal.columns);
  std::string out = run_line('a', first) + run_line('b', second) + "\n";
  out += option_lines(first, second, columns) + "\n";
  const std::vector<ResultRow> rows = result_rows(first, second);
  std::size_t width = 16;
  for (const ResultRow& row : rows) width = std::max(width, row.name.size());
  const std::size_t room = columns > 38 ? columns - 38 : 16;  // beside 2 columns of indent and three of 12
  width = std::min(width, room);
  const auto line = [width, columns](std::string_view name, std::string_view a, std::string_view b,
                                     std::string_view change) {
    const bool fits = static_cast<std::size_t>(columns_of(name)) <= width;
    std::string text = fits ? "" : fmt::format("  {}\n", fit_line(name, static_cast<int>(columns) - 2));
    text += fmt::format("  {:<{}}{:>12}{:>12}{:>12}", fits ? name : "", width, a, b, change);
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  out += line("results", "a", "b", "b - a").substr(2);
  for (const ResultRow& row : rows)
    out += line(row.name, shown_number(row.first, row.unit), shown_number(row.second, row.unit),
                shown_change(row));
  return out;
}

}  // namespace hone::report
