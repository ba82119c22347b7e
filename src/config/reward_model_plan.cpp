#include "config/reward_model_plan.h"

#include <fmt/format.h>

#include "base/error.h"

namespace hone::config {

void resolve_reward_model(Settings& settings) {
  for (const std::string& name : settings.list("lora_modules_to_save")) {
    if (name == "score" || name == "classifier") continue;  // PEFT's two names for such a head
    throw base::UserError({.where = settings.where("lora_modules_to_save"),
                           .expected = "score in lora_modules_to_save, the head of a reward model",
                           .found = fmt::format("'{}'", name),
                           .cause = "beside the LoRA only the head can be trained whole",
                           .fix = "remove it: the head is trained in any case"});
  }
  if (settings.flag("disable_dropout")) settings.replace("lora_dropout", 0.0);
}

RewardModelPlan make_reward_model_plan(const Settings& settings, std::vector<std::string>& notes) {
  RewardModelPlan plan;
  if (!settings.value("center_rewards_coefficient").is_null())
    plan.center_rewards_coefficient = settings.number("center_rewards_coefficient");
  plan.pad_token = settings.text("pad_token");
  plan.disable_dropout = settings.flag("disable_dropout");
  plan.share_prompt = settings.flag("share_prompt");
  if (!plan.pad_token.empty()) {
    notes.emplace_back(
        "pad_token: whoever uses the reward model must set the same one in its tokenizer: a score is that of "
        "the last token that is another");
  }
  return plan;
}

}  // namespace hone::config
