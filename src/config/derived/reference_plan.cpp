#include "config/derived/reference_plan.h"

#include <fmt/format.h>

#include <string>

#include "config/method_traits.h"
#include "config/methods/policy_plan.h"

namespace hone::config {
namespace {

constexpr const char *kSync = "sync_ref_model", *kDtype = "ref_model_dtype",
                     *kRemove = "remove sync_ref_model";

void check_moving(const Plan& plan, const Settings& settings) {
  if (plan.use_peft) {
    conflict(
        settings, kSync, "sync_ref_model: false with use_peft: true", "true",
        "TRL refuses it with PEFT: the reference is the model without its adapter, so that no other model is there "
        "that could move",
        "remove sync_ref_model, or train all weights: use_peft: false");
  }
  if (plan.precompute_ref_log_probs) {
    conflict(settings, kSync, "sync_ref_model or precompute_ref_log_probs", "both",
             "log-probabilities that are computed once are those of a reference that stays",
             "remove one of them");
  }
  if (method_traits(plan.method).groups && plan.policy.beta == 0) {
    conflict(settings, kSync, "beta above 0 with sync_ref_model", "beta: 0",
             "with beta 0 there is no reference that could move", kRemove);
  }
  const bool parts =
      !plan.unfrozen_parameters.empty() || !plan.layers_to_transform.empty() || plan.freeze_embeddings;
  if (!plan.ref_model.empty() && parts) {
    conflict(settings, kSync, "all weights trained, with sync_ref_model and ref_model", "a part of them",
             "the weights that stay are those of the model, and ref_model has others",
             "remove ref_model, sync_ref_model, or the option that leaves weights frozen");
  }
}

}  // namespace

void finish_reference(Plan& plan, const Settings& settings) {
  if (plan.ref_model.empty()) {
    if (settings.changed(kDtype)) plan.notes.push_back(fmt::format("{}: not used without ref_model", kDtype));
  } else if (settings.changed(kDtype)) {
    plan.ref_precision = precision_of(settings.text(kDtype), settings);
  }
  if (plan.sync_ref_model) check_moving(plan, settings);
}

}  // namespace hone::config
