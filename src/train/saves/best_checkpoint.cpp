#include "train/saves/best_checkpoint.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings/suggest.h"
#include "train/saves/run_folder.h"
#include "train/saves/run_state.h"

namespace hone::train {

base::Json BestCheckpoint::to_json() const {
  base::Json out = {{"step", step}, {"saved", saved}};
  if (metric) out["metric"] = json_of_number(*metric);
  return out;
}

BestCheckpoint BestCheckpoint::from_json(const base::Json& json, const std::string& where) {
  BestCheckpoint out{
      .metric = {}, .step = whole_number(json, "step", where), .saved = whole_number(json, "saved", where)};
  if (json.contains("metric")) out.metric = real_number(json, "metric", where);
  return out;
}

double best_metric_of(const config::SavingPlan& plan, const std::vector<NamedValue>& metrics) {
  const auto found = std::find_if(metrics.begin(), metrics.end(), [&](const NamedValue& one) {
    return one.first == plan.metric_for_best_model;
  });
  if (found != metrics.end()) return found->second;
  std::vector<std::string> names;
  std::string listed;
  for (const auto& [name, value] : metrics) {
    listed += (listed.empty() ? "" : ", ") + name;
    names.push_back(name);
  }
  throw base::UserError({.where = "option metric_for_best_model",
                         .expected = "a metric of the evaluation: " + listed,
                         .found = "'" + plan.metric_for_best_model + "'." +
                                  base::did_you_mean(plan.metric_for_best_model, names),
                         .cause = "the evaluation has no metric of that name",
                         .fix = "correct the name; the step that was evaluated is not lost"});
}

bool see_metric(BestCheckpoint& best, const config::SavingPlan& plan, double metric, std::int64_t step) {
  const bool better =
      !best.metric || (plan.greater_is_better ? metric > *best.metric : metric < *best.metric);
  if (!better || metric != metric) return false;
  best.metric = metric;
  best.step = step;
  return true;
}

void note_saved(BestCheckpoint& best, const base::fs::path& output_dir, std::int64_t step) {
  if (best.step == 0) return;
  const bool there = best.step == step || base::fs::is_directory(checkpoint_path(output_dir, best.step));
  if (there) best.saved = best.step;
}

}  // namespace hone::train
