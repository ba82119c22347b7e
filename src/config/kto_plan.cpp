#include "config/kto_plan.h"

#include <fmt/format.h>

#include "base/error.h"

namespace hone::config {
namespace {

void check_kl(const Settings& settings) {
  const std::string strategy = settings.text("train_sampling_strategy");
  if (strategy != "sequential") {
    throw base::UserError(
        {.where = settings.where("train_sampling_strategy"),
         .expected = "train_sampling_strategy: sequential with loss_type: kto",
         .found = strategy,
         .cause =
             "the KL is estimated from each prompt with its neighbour's completion: neighbours must be of "
             "one micro-batch, in a fixed order",
         .fix = "remove it and shuffle the rows of the file, or take loss_type: apo_zero_unpaired"});
  }
  if (settings.integer("per_device_train_batch_size") > 1) return;
  throw base::UserError({.where = settings.where("per_device_train_batch_size"),
                         .expected = "per_device_train_batch_size above 1 with loss_type: kto",
                         .found = "1",
                         .cause = "the KL is estimated from each prompt with another row's completion",
                         .fix = "take 2 or more, or loss_type: apo_zero_unpaired"});
}

}  // namespace

void resolve_kto(Settings& settings) {
  if (settings.flag("disable_dropout")) settings.replace("lora_dropout", 0.0);
}

KtoPlan make_kto_plan(const Settings& settings, std::vector<std::string>& notes) {
  KtoPlan plan;
  plan.loss_type = settings.text("loss_type");
  plan.beta = settings.number("beta");
  plan.desirable_weight = settings.number("desirable_weight");
  plan.undesirable_weight = settings.number("undesirable_weight");
  plan.precompute_ref_log_probs = settings.flag("precompute_ref_log_probs");
  plan.precompute_ref_batch_size = settings.maybe_integer("precompute_ref_batch_size");
  plan.disable_dropout = settings.flag("disable_dropout");
  if (plan.loss_type == "kto") check_kl(settings);
  if (plan.desirable_weight == 0 && plan.undesirable_weight == 0) {
    throw base::UserError({.where = settings.where("desirable_weight"),
                           .expected = "desirable_weight or undesirable_weight above 0",
                           .found = "0 for both",
                           .cause = "no row would have a loss",
                           .fix = {}});
  }
  if (plan.precompute_ref_batch_size && !plan.precompute_ref_log_probs) {
    notes.emplace_back("precompute_ref_batch_size: not used, precompute_ref_log_probs is false");
  }
  return plan;
}

}  // namespace hone::config
