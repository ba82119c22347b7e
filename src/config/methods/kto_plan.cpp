#include "config/methods.h"

namespace hone::config {
namespace {

void check_kl(const Settings& settings) {
  const std::string strategy = settings.text("train_sampling_strategy");
  if (strategy != "sequential") {
    conflict(settings, "train_sampling_strategy", "train_sampling_strategy: sequential with loss_type: kto",
             strategy,
             "the KL is estimated from each prompt with its neighbor's completion: neighbors must be in the "
             "same micro-batch, in a fixed order",
             "remove it and shuffle the rows of the file, or take loss_type: apo_zero_unpaired");
  }
  if (settings.integer("per_device_train_batch_size") > 1) return;
  conflict(settings, "per_device_train_batch_size", "per_device_train_batch_size above 1 with loss_type: kto",
           "1", "the KL is estimated from each prompt with another row's completion",
           "take 2 or more, or loss_type: apo_zero_unpaired");
}

}  // namespace

void finish_kto(Plan& plan, const Settings& settings) {
  if (plan.kto.loss_type == "kto") check_kl(settings);
  if (plan.kto.desirable_weight == 0 && plan.kto.undesirable_weight == 0) {
    conflict(settings, "desirable_weight", "desirable_weight or undesirable_weight above 0", "0 for both",
             "no row would have a loss", "");
  }
}

}  // namespace hone::config
