#include "config/preference_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/suggest.h"

namespace hone::config {
namespace {

using base::Json;
using base::UserError;

const std::vector<std::string> kLossTypes = {"sigmoid",  "hinge",    "ipo",       "exo_pair", "nca_pair",
                                             "robust",   "bco_pair", "sppo_hard", "aot",      "aot_unpaired",
                                             "apo_zero", "apo_down", "discopop",  "sft",      "sigmoid_norm"};
// DPOTrainer's f_divergence_loss_types: the others' normaliser does not cancel.
const std::vector<std::string> kDivergent = {"sigmoid",  "sigmoid_norm", "hinge",    "ipo",
                                             "exo_pair", "robust",       "discopop", "sft"};

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

[[noreturn]] void conflict(const Settings& settings, const char* name, std::string expected,
                           std::string found, std::string cause, std::string fix) {
  throw UserError({.where = settings.where(name),
                   .expected = std::move(expected),
                   .found = std::move(found),
                   .cause = std::move(cause),
                   .fix = std::move(fix)});
}

double number_of(const Settings& settings, const char* name, const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc() && end == word.data() + word.size() && std::isfinite(value)) return value;
  conflict(settings, name, fmt::format("numbers for option {}", name), fmt::format("'{}'", word), "", "");
}

void check_losses(const Settings& settings, const PreferencePlan& plan) {
  if (plan.loss_weights.size() != plan.loss_type.size() && !plan.loss_weights.empty()) {
    conflict(settings, "loss_weights",
             fmt::format("one of loss_weights for each loss_type, {}", plan.loss_type.size()),
             fmt::format("{}", plan.loss_weights.size()), "", "");
  }
  if (plan.f_divergence_type != "reverse_kl") {
    for (const std::string& type : plan.loss_type) {
      if (has(kDivergent, type)) continue;
      conflict(settings, "f_divergence_type",
               fmt::format("f_divergence_type: reverse_kl with loss_type: {}", type), plan.f_divergence_type,
               "another divergence's normaliser cancels in the difference of chosen and rejected alone",
               fmt::format("it goes with {}", fmt::join(kDivergent, ", ")));
    }
  }
  if (plan.use_weighting && (has(plan.loss_type, "aot") || has(plan.loss_type, "aot_unpaired"))) {
    conflict(settings, "use_weighting", "use_weighting: false with loss_type: aot or aot_unpaired", "true",
             "these losses sort the pairs of a micro-batch, so that a pair has no weight of its own", "");
  }
  if (has(plan.loss_type, "exo_pair") && plan.label_smoothing == 0) {
    conflict(settings, "label_smoothing", "label_smoothing above 0 with loss_type: exo_pair", "0",
             "its loss has the logarithm of label_smoothing", "the paper takes label_smoothing: 0.001");
  }
  if (has(plan.loss_type, "robust") && plan.label_smoothing == 0.5) {
    conflict(settings, "label_smoothing", "label_smoothing below 0.5 with loss_type: robust", "0.5",
             "half of the labels flipped say nothing: the loss is divided by 1 - 2 * label_smoothing",
             "the paper takes label_smoothing: 0.1");
  }
}

bool changed(const Settings& settings, const char* name) {
  return settings.value(name) != settings.schema().find(name)->default_value();
}

void note_losses(const Settings& settings, const PreferencePlan& plan, std::vector<std::string>& notes) {
  const auto idle = [&](const char* name, std::string_view why) {
    if (changed(settings, name)) notes.push_back(fmt::format("{}: not used, {}", name, why));
  };
  const auto takes = [&](std::initializer_list<const char*> types) {
    return std::any_of(types.begin(), types.end(), [&](const char* one) { return has(plan.loss_type, one); });
  };
  if (!takes({"robust", "exo_pair", "aot", "aot_unpaired"})) {
    idle("label_smoothing", "no loss_type is robust, exo_pair, aot or aot_unpaired");
  }
  if (!takes({"discopop"})) idle("discopop_tau", "no loss_type is discopop");
  if (plan.f_divergence_type != "alpha_divergence") {
    idle("f_alpha_divergence_coef", "f_divergence_type is not alpha_divergence");
  }
  if (!plan.precompute_ref_log_probs) {
    idle("precompute_ref_batch_size", "precompute_ref_log_probs is false");
  }
  if (has(plan.loss_type, "robust") && plan.label_smoothing > 0.5) {
    notes.push_back(fmt::format("label_smoothing: {} for robust says that most labels are flipped",
                                plan.label_smoothing));
  }
  if (takes({"aot", "aot_unpaired"}) && settings.integer("per_device_train_batch_size") == 1) {
    notes.emplace_back("loss_type: aot sorts the pairs of a micro-batch, and this one holds one pair");
  }
  if (plan.truncation_mode == "keep_end") {
    notes.emplace_back("truncation_mode: keep_end is deprecated in TRL, and removed in its version 2");
  }
}

}  // namespace

void resolve_preference(Settings& settings) {
  if (settings.list("loss_type").empty()) {
    conflict(settings, "loss_type", "at least one loss_type", "none", "", "the default is sigmoid");
  }
  for (const std::string& type : settings.list("loss_type")) {
    if (has(kLossTypes, type)) continue;
    conflict(settings, "loss_type", fmt::format("one of {} for loss_type", fmt::join(kLossTypes, ", ")),
             fmt::format("'{}'.{}", type, base::did_you_mean(type, kLossTypes)), "", "");
  }
  if (!settings.value("loss_weights").is_null()) {
    Json numbers = Json::array();
    for (const std::string& word : settings.list("loss_weights")) {
      numbers.push_back(number_of(settings, "loss_weights", word));
    }
    settings.replace("loss_weights", std::move(numbers));
  }
  if (settings.flag("disable_dropout")) settings.replace("lora_dropout", 0.0);
}

PreferencePlan make_preference_plan(const Settings& settings, std::vector<std::string>& notes) {
  PreferencePlan plan;
  plan.loss_type = settings.list("loss_type");
  if (!settings.value("loss_weights").is_null()) {
    plan.loss_weights = settings.value("loss_weights").get<std::vector<double>>();
  }
  plan.beta = settings.number("beta");
  plan.f_divergence_type = settings.text("f_divergence_type");
  plan.f_alpha_divergence_coef = settings.number("f_alpha_divergence_coef");
  plan.label_smoothing = settings.number("label_smoothing");
  if (!settings.value("ld_alpha").is_null()) plan.ld_alpha = settings.number("ld_alpha");
  plan.use_weighting = settings.flag("use_weighting");
  plan.discopop_tau = settings.number("discopop_tau");
  plan.precompute_ref_log_probs = settings.flag("precompute_ref_log_probs");
  plan.precompute_ref_batch_size = settings.maybe_integer("precompute_ref_batch_size");
  plan.truncation_mode = settings.text("truncation_mode");
  plan.disable_dropout = settings.flag("disable_dropout");
  plan.share_prompt = settings.flag("share_prompt");
  check_losses(settings, plan);
  note_losses(settings, plan, notes);
  return plan;
}

}  // namespace hone::config
