#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/strings/suggest.h"
#include "config/methods.h"
#include "config/methods/policy_plan.h"

namespace hone::config {
namespace {

const std::vector<std::string> kLossTypes = {"sigmoid",  "hinge",    "ipo",       "exo_pair", "nca_pair",
                                             "robust",   "bco_pair", "sppo_hard", "aot",      "aot_unpaired",
                                             "apo_zero", "apo_down", "discopop",  "sft",      "sigmoid_norm"};
// DPOTrainer's f_divergence_loss_types: the others' normalizer does not cancel.
const std::vector<std::string> kDivergent = {"sigmoid",  "sigmoid_norm", "hinge",    "ipo",
                                             "exo_pair", "robust",       "discopop", "sft"};

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

void check_losses(const Settings& settings, const PreferencePlan& plan) {
  if (plan.loss_weights.size() != plan.loss_type.size() && !plan.loss_weights.empty()) {
    conflict(settings, "loss_weights",
             fmt::format("one of loss_weights for each loss_type, {}", plan.loss_type.size()),
             fmt::format("{}", plan.loss_weights.size()));
  }
  if (plan.f_divergence_type != "reverse_kl") {
    for (const std::string& type : plan.loss_type) {
      if (has(kDivergent, type)) continue;
      conflict(settings, "f_divergence_type",
               fmt::format("f_divergence_type: reverse_kl with loss_type: {}", type), plan.f_divergence_type,
               "the normalizer of another divergence cancels only in the difference of chosen and rejected",
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
             "labels of which half are flipped carry no information: the loss is divided by 1 - 2 * "
             "label_smoothing",
             "the paper takes label_smoothing: 0.1");
  }
}

void note_losses(const Settings& settings, const Plan& run, std::vector<std::string>& notes) {
  const PreferencePlan& plan = run.preference;
  const auto takes = [&](std::initializer_list<const char*> types) {
    return std::any_of(types.begin(), types.end(), [&](const char* one) { return has(plan.loss_type, one); });
  };
  if (has(plan.loss_type, "robust") && plan.label_smoothing > 0.5) {
    notes.push_back(fmt::format("label_smoothing: {} for robust means that most labels are flipped",
                                plan.label_smoothing));
  }
  if (takes({"aot", "aot_unpaired"}) && settings.integer("per_device_train_batch_size") == 1) {
    notes.emplace_back("loss_type: aot sorts the pairs of a micro-batch, and this one holds one pair");
  }
  if (run.truncation_mode == "keep_end") {
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
             fmt::format("'{}'.{}", type, base::did_you_mean(type, kLossTypes)));
  }
  resolve_numbers(settings, "loss_weights");
}

void finish_preference(Plan& plan, const Settings& settings) {
  check_losses(settings, plan.preference);
  note_losses(settings, plan, plan.notes);
}

}  // namespace hone::config
