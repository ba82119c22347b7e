#include "config/derived/best_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/json_tools.h"

namespace hone::config {
namespace {

constexpr const char* kBestMetric = "metric_for_best_model";
constexpr const char* kLoadBest = "load_best_model_at_end";

bool schedule_follows(const Settings& settings) {
  const std::string schedule = settings.text("lr_scheduler_type");
  return schedule == "reduce_lr_on_plateau" || schedule == "greedy";
}

// Each checkpoint must have been evaluated: whole multiples, of both as steps or both as shares.
void check_multiple(const Settings& settings) {
  const double save = settings.number("save_steps"), eval = settings.number("eval_steps");
  if (eval <= 0 || save <= 0) return;  // other checks say so
  const bool same_kind = (save < 1) == (eval < 1);
  const double ratio = save / eval;
  if (same_kind && std::abs(ratio - std::round(ratio)) < 1e-6) return;
  conflict(settings, "save_steps", fmt::format("save_steps a multiple of eval_steps with {}", kLoadBest),
           fmt::format("save_steps {}, eval_steps {}", base::short_json(settings.value("save_steps")),
                       base::short_json(settings.value("eval_steps"))),
           "a checkpoint that is not evaluated cannot be ranked", "set save_steps to eval_steps");
}

// eval_NAME_loss, of one of several sets.
void check_metric_set(const Settings& settings, const std::string& metric) {
  const base::Json& sets = settings.value("eval_datasets");
  if (!sets.is_object() || metric.empty()) return;
  std::vector<std::string> names;
  for (const auto& [name, value] : sets.items()) {
    if (metric.starts_with(fmt::format("eval_{}_", name))) return;
    names.push_back(fmt::format("eval_{}_loss", name));
  }
  conflict(settings, kBestMetric,
           fmt::format("a metric of one evaluation set, such as {}", fmt::join(names, ", ")), metric,
           "the metrics of several sets have their names",
           fmt::format("write {}: {}", kBestMetric, names.front()));
}

}  // namespace

void resolve_best(Settings& settings) {
  std::string metric = settings.text(kBestMetric);
  if (metric.empty() && (settings.flag(kLoadBest) || schedule_follows(settings))) metric = "loss";
  if (metric.empty()) return;
  if (settings.value("greater_is_better").is_null()) {
    settings.replace("greater_is_better", !metric.ends_with("loss"));
  }
  settings.replace(kBestMetric, metric.starts_with("eval_") ? metric : "eval_" + metric);
}

void check_best(const Settings& settings) {
  const std::string save = settings.text("save_strategy"), eval = settings.text("eval_strategy");
  const std::string metric = settings.text(kBestMetric);
  if (save == "best" && metric.empty()) {
    conflict(settings, "save_strategy", fmt::format("{} with save_strategy: best", kBestMetric), "none", "",
             fmt::format("write {}: loss", kBestMetric));
  }
  if (save == "best" && eval == "no") {
    conflict(settings, "save_strategy", "an evaluation with save_strategy: best", "eval_strategy: no",
             "nothing would be saved", "set eval_strategy: steps and eval_steps");
  }
  if (settings.flag(kLoadBest) && save != "best") {
    if (save != eval) {
      conflict(settings, kLoadBest, "the same save_strategy and eval_strategy, or save_strategy: best",
               fmt::format("save_strategy: {}, eval_strategy: {}", save, eval),
               "a checkpoint that is not evaluated cannot be ranked",
               fmt::format("set eval_strategy: {}", save));
    }
    if (save == "steps") check_multiple(settings);
  }
  check_metric_set(settings, metric);
}

}  // namespace hone::config
