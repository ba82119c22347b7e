// From lr_scheduler_type and lr_scheduler_kwargs, as a user writes them, to transformers' learning rates
// (record_optimizers.py).
#include <gtest/gtest.h>

#include <limits>

#include "base/files/file.h"
#include "base/json.h"
#include "config/parse.h"
#include "config/write_plan.h"
#include "parity/golden.h"
#include "train/loop/optimizer.h"

namespace hone::parity {
namespace schedules_test {

const base::Json& recorded() {
  static const base::Json value =
      base::parse_json(base::read_text(HONE_FIXTURES "/parity/learn/schedules.json"), "schedules.json");
  return value;
}

config::Plan plan_of(const base::Json& one) {
  config::Settings settings(config::method_schema(config::Method::kSft));
  settings.read_arguments({"--model_name_or_path", "model", "--dataset_name", "rows.jsonl", "--use_peft",
                           "--eval_strategy", "steps", "--lr_scheduler_type", one["type"].get<std::string>(),
                           "--learning_rate", one["learning_rate"].dump(), "--lr_scheduler_kwargs",
                           one["kwargs"].dump()});
  return config::make_plan(config::Method::kSft, settings);
}

TEST(Schedules, EqualTransformersStepForStep) {
  Margin margin("learning-rate factors", 1e-15);
  std::set<std::string> types;
  for (const base::Json& one : recorded()["factors"]) {
    const std::string type = one["type"];
    types.insert(type);
    config::Plan plan = plan_of(one);
    plan.warmup_steps = one["warmup"].get<double>();
    const learn::ScheduleSpec spec = train::schedule_spec(plan, one["total"]);
    std::int64_t step = 0;
    for (const double factor : one["factors"]) {
      const bool zero_span = spec.warmup_steps == spec.total_steps;  // transformers divides by it
      if (zero_span && step >= spec.total_steps) break;
      margin.compare(type + one["kwargs"].dump() + " step " + std::to_string(step),
                     learn::schedule_factor(spec, step), factor);
      ++step;
    }
  }
  EXPECT_EQ(types.size(), 10U);
}

TEST(Schedules, ThoseOfAMetricEqualTransformers) {
  Margin margin("rates after evaluations", 1e-15);
  int changes = 0, resets = 0;
  for (const base::Json& one : recorded()["metric"]) {
    const config::Plan plan = plan_of(one);
    const learn::PlateauOptions& options = plan.lr_scheduler_kwargs.plateau;
    learn::PlateauState state = learn::begin_plateau(options, plan.learning_rate);
    for (std::size_t i = 0; i < one["metrics"].size(); ++i) {
      const base::Json& metric = one["metrics"][i];
      const double value =
          metric.is_string() ? std::numeric_limits<double>::quiet_NaN() : metric.get<double>();
      const double before = state.rate;
      const auto step = one["type"] == "greedy" ? learn::step_greedy : learn::step_plateau;
      step(state, options, value);
      const double rate = one["rates"][i];
      margin.compare(one["kwargs"].dump() + " evaluation " + std::to_string(i), state.rate, rate);
      changes += state.rate == before ? 0 : 1;
      resets += state.rate > before && state.rate == plan.learning_rate ? 1 : 0;
    }
  }
  EXPECT_GT(changes, 50);
  EXPECT_GT(resets, 0);
}

}  // namespace schedules_test
}  // namespace hone::parity
