#include <fmt/format.h>

#include "config/methods.h"

namespace hone::config {

void resolve_reward_model(Settings& settings) {
  for (const std::string& name : settings.list("lora_modules_to_save")) {
    if (name == "score" || name == "classifier") continue;  // PEFT's two names for such a head
    conflict(settings, "lora_modules_to_save", "score in lora_modules_to_save, the head of a reward model",
             fmt::format("'{}'", name), "besides the LoRA weights only the head can be trained in full",
             "remove it: the head is trained in any case");
  }
}

void finish_reward_model(Plan& plan, const Settings&) {
  if (plan.reward.pad_token.empty()) return;
  plan.notes.emplace_back(
      "pad_token: set the same one in the tokenizer wherever the reward model is used: the score is that of "
      "the last other token");
}

}  // namespace hone::config
