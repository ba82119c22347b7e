#include "config/derived/schedule_kwargs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "base/json_tools.h"
#include "base/strings/suggest.h"
#include "base/strings/utf8.h"
#include "config/reading/keyword_values.h"

namespace hone::config {
namespace {

using base::Json;
using learn::PlateauOptions;
using learn::RampForm;
using learn::ScheduleKwargs;

constexpr const char* kScheduleKwargs = "lr_scheduler_kwargs";

// The keys of each schedule: the arguments of its function in transformers.optimization.
constexpr std::array<Keywords<Scheduler>, 9> kScheduleKeywords = {
    {{Scheduler::kCosine, "num_cycles"},
     {Scheduler::kCosineWithRestarts, "num_cycles"},
     {Scheduler::kPolynomial, "lr_end power"},
     {Scheduler::kInverseSqrt, "timescale"},
     {Scheduler::kCosineWithMinLr, "num_cycles min_lr min_lr_rate"},
     {Scheduler::kCosineWarmupWithMinLr, "num_cycles min_lr min_lr_rate warmup_lr_rate"},
     {Scheduler::kWarmupStableDecay,
      "num_decay_steps num_stable_steps warmup_type decay_type min_lr_ratio num_cycles"},
     {Scheduler::kReduceLrOnPlateau, "mode factor patience threshold threshold_mode cooldown min_lr eps"},
     {Scheduler::kGreedy,
      "mode factor patience threshold threshold_mode cooldown warmup min_lr max_lr eps verbose smooth "
      "window_size reset_start"}}};

// A number, or a text that is one: YAML reads 1e-5 as a text.
std::optional<double> number_in(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  return number_from(value.get<std::string>());
}

struct ScheduleValue {
  const Settings& settings;
  const std::string& key;
  const Json& value;

  [[noreturn]] void wrong(const std::string& expected) const {
    conflict(settings, kScheduleKwargs, fmt::format("{} for {}.{}", expected, kScheduleKwargs, key),
             base::short_json(value));
  }
  double number(const Range& range = {}) const {
    const std::optional<double> found = number_in(value);
    const std::string bounds = range.describe();
    if (!found || !std::isfinite(*found) || !range.holds(*found))
      wrong(bounds.empty() ? "a number" : "a number " + bounds);
    return *found;
  }
  std::int64_t count(std::int64_t least) const {
    const double found = number({.least = static_cast<double>(least), .most = kMaxSteps});
    if (found != std::floor(found)) wrong("a whole number");
    return static_cast<std::int64_t>(found);
  }
  bool flag() const {
    if (!value.is_boolean()) wrong("true or false");
    return value.get<bool>();
  }
  template <typename T, std::size_t N>
  T word(const Choices<T, N>& words) const {
    std::vector<std::string_view> known;
    for (const auto& [word, meaning] : words) {
      if (value == word) return meaning;
      known.push_back(word);
    }
    wrong(fmt::format("{}", fmt::join(known, " or ")));
  }
};

constexpr Choices<RampForm, 3> kRampWords = {
    {{"linear", RampForm::kLinear}, {"cosine", RampForm::kCosine}, {"1-sqrt", RampForm::kOneMinusSqrt}}};
constexpr Choices<bool, 2> kModeWords = {{{"min", false}, {"max", true}}};
constexpr Choices<bool, 2> kThresholdWords = {{{"rel", true}, {"abs", false}}};
const Range kBelowOne = {.least = 0, .most = 1, .least_open = true, .most_open = true};

// min_lr of a cosine is a bound of its factor, that of a metric's schedule a bound of the rate.
using SetKey = std::function<void(const ScheduleValue&, ScheduleKwargs&)>;
const std::map<std::string, SetKey>& setters() {
  using V = ScheduleValue;
  using K = ScheduleKwargs;
  static const std::map<std::string, SetKey> all = {
      {"num_cycles", [](const V& v, K& k) { k.num_cycles = v.number(); }},
      {"lr_end", [](const V& v, K& k) { k.lr_end = v.number(at_least(0)); }},
      {"power", [](const V& v, K& k) { k.power = v.number(at_least(0)); }},
      {"timescale", [](const V& v, K& k) { k.timescale = v.number(above(0)); }},
      {"min_lr",
       [](const V& v, K& k) {
         k.min_lr = v.number(at_least(0));
         k.plateau.min_lr = *k.min_lr;
       }},
      {"min_lr_rate", [](const V& v, K& k) { k.min_lr_rate = v.number(at_least(0)); }},
      {"warmup_lr_rate", [](const V& v, K& k) { k.warmup_lr_rate = v.number(at_least(0)); }},
      {"num_decay_steps", [](const V& v, K& k) { k.num_decay_steps = v.count(0); }},
      {"num_stable_steps", [](const V& v, K& k) { k.num_stable_steps = v.count(0); }},
      {"warmup_type", [](const V& v, K& k) { k.warmup_type = v.word(kRampWords); }},
      {"decay_type", [](const V& v, K& k) { k.decay_type = v.word(kRampWords); }},
      {"min_lr_ratio", [](const V& v, K& k) { k.min_lr_ratio = v.number(at_least(0)); }},
      {"mode", [](const V& v, K& k) { k.plateau.maximize = v.word(kModeWords); }},
      {"factor", [](const V& v, K& k) { k.plateau.factor = v.number(kBelowOne); }},
      {"patience", [](const V& v, K& k) { k.plateau.patience = v.count(0); }},
      {"threshold", [](const V& v, K& k) { k.plateau.threshold = v.number(at_least(0)); }},
      {"threshold_mode", [](const V& v, K& k) { k.plateau.relative = v.word(kThresholdWords); }},
      {"cooldown", [](const V& v, K& k) { k.plateau.cooldown = v.count(0); }},
      {"eps", [](const V& v, K& k) { k.plateau.eps = v.number(at_least(0)); }},
      {"warmup", [](const V& v, K& k) { k.plateau.warmup = v.count(0); }},
      {"max_lr", [](const V& v, K& k) { k.plateau.max_lr = v.number(above(0)); }},
      {"verbose", [](const V& v, K&) { v.flag(); }},  // it prints
      {"smooth", [](const V& v, K& k) { k.plateau.smooth = v.flag(); }},
      {"window_size", [](const V& v, K& k) { k.plateau.window_size = v.count(1); }},
      {"reset_start", [](const V& v, K& k) { k.plateau.reset_start = v.count(0); }}};
  return all;
}

[[noreturn]] void unknown_key(const Settings& settings, const std::string& key,
                              const std::vector<std::string>& known) {
  const std::string schedule = settings.text("lr_scheduler_type");
  const bool others = std::any_of(kScheduleKeywords.begin(), kScheduleKeywords.end(),
                                  [&](const auto& row) { return contains_word(row.names, key); });
  conflict(settings, kScheduleKwargs,
           known.empty() ? fmt::format("no {} with lr_scheduler_type {}", kScheduleKwargs, schedule)
                         : fmt::format("keys of lr_scheduler_type {} in {}", schedule, kScheduleKwargs),
           fmt::format("unknown key '{}'.{}", base::cut_text(key, 200), base::did_you_mean(key, known)),
           others ? fmt::format("{} belongs to other schedules", key) : "",
           known.empty() ? fmt::format("remove {}, or choose another lr_scheduler_type", kScheduleKwargs)
                         : fmt::format("{} has {}", schedule, fmt::join(known, ", ")));
}

void check_rates(const OptimizerPlan& plan, const Settings& settings) {
  const ScheduleKwargs& kwargs = plan.lr_scheduler_kwargs;
  const Scheduler type = plan.lr_scheduler_type;
  const std::string schedule = settings.text("lr_scheduler_type");
  if (type == Scheduler::kCosineWithMinLr || type == Scheduler::kCosineWarmupWithMinLr) {
    if (kwargs.min_lr.has_value() == kwargs.min_lr_rate.has_value()) {
      conflict(settings, kScheduleKwargs,
               fmt::format("min_lr or min_lr_rate in {} with {}", kScheduleKwargs, schedule),
               kwargs.min_lr ? "both" : "neither", "min_lr is a rate, min_lr_rate a share of learning_rate",
               fmt::format("{}: {{min_lr_rate: 0.1}}", kScheduleKwargs));
    }
    if (kwargs.min_lr && plan.learning_rate == 0)
      conflict(settings, "learning_rate", "learning_rate above 0 with min_lr", "0");
  }
  if (type == Scheduler::kPolynomial && !(plan.learning_rate > kwargs.lr_end)) {
    conflict(settings, "learning_rate", fmt::format("learning_rate above lr_end, {}", kwargs.lr_end),
             fmt::format("{}", plan.learning_rate), "polynomial ends at lr_end, 1e-7 if it is not set",
             fmt::format("set lr_end in {}, or raise learning_rate", kScheduleKwargs));
  }
  if (type == Scheduler::kWarmupStableDecay && !settings.value(kScheduleKwargs).contains("num_decay_steps")) {
    conflict(settings, kScheduleKwargs,
             fmt::format("num_decay_steps in {} with {}", kScheduleKwargs, schedule),
             base::short_json(settings.value(kScheduleKwargs)), "",
             fmt::format("{}: {{num_decay_steps: 100}}", kScheduleKwargs));
  }
}

// reduce_lr_on_plateau and greedy.
void check_metric(const OptimizerPlan& plan, const Settings& settings, std::vector<std::string>& notes) {
  const std::string schedule = settings.text("lr_scheduler_type");
  if (settings.text("eval_strategy") == "no") {
    conflict(settings, "lr_scheduler_type", fmt::format("an evaluation for {}", schedule),
             "eval_strategy: no", "this schedule changes the learning rate after an evaluation, by eval_loss",
             "set eval_strategy: steps, eval_steps and an evaluation dataset, or choose another schedule");
  }
  const PlateauOptions& options = plan.lr_scheduler_kwargs.plateau;
  if (plan.lr_scheduler_type == Scheduler::kGreedy && options.min_lr >= plan.learning_rate) {
    notes.push_back(
        fmt::format("lr_scheduler_kwargs: min_lr {} is not below learning_rate {}: greedy only "
                    "raises the rate; 0.001 is transformers' default",
                    options.min_lr, plan.learning_rate));
  }
}

}  // namespace

void read_schedule_kwargs(OptimizerPlan& plan, const Settings& settings, std::vector<std::string>& notes) {
  const Scheduler type = plan.lr_scheduler_type;
  const Json& given = settings.value(kScheduleKwargs);
  const bool constant = type == Scheduler::kConstant || type == Scheduler::kConstantWithWarmup;
  if (type == Scheduler::kGreedy) plan.lr_scheduler_kwargs.plateau = learn::kGreedyDefaults;
  if (constant && !given.empty()) {
    notes.push_back(fmt::format("lr_scheduler_kwargs: not used by lr_scheduler_type {}",
                                settings.text("lr_scheduler_type")));
  } else if (given.is_object()) {
    const std::vector<std::string> known = keywords_of(kScheduleKeywords, type);
    for (const auto& [key, value] : given.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end()) unknown_key(settings, key, known);
      if (value.is_null()) continue;  // as if it were not there
      setters().at(key)({settings, key, value}, plan.lr_scheduler_kwargs);
    }
  }
  check_rates(plan, settings);
  if (learn::follows_metric(type)) check_metric(plan, settings, notes);
  const bool ignores_warmup = type == Scheduler::kConstant || learn::follows_metric(type);
  if (ignores_warmup && settings.changed("warmup_steps")) {
    notes.push_back(fmt::format("warmup_steps: not used by lr_scheduler_type {}{}",
                                settings.text("lr_scheduler_type"),
                                type == Scheduler::kConstant ? "; constant_with_warmup has a warm-up" : ""));
  }
}

}  // namespace hone::config
