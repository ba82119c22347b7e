#include <fmt/format.h>

#include "config/methods.h"

namespace hone::config {

void resolve_reward_model(Settings& settings) {
  for (const std::string& name : settings.list("lora_modules_to_save")) {
    if (name == "score" || name == "classifier") continue;  // PEFT's two names for such a head
    conflict(settings, "lora_modules_to_save", "score in lora_modules_to_save, the head of a reward model",
             fmt::format("'{}'", name), "beside the LoRA only the head can be trained whole",
             "remove it: the head is trained in any case");
  }
}

void finish_reward_model(Plan& plan, const Settings&) {
  if (plan.reward.pad_token.empty()) return;
  plan.notes.emplace_back(
      "pad_token: whoever uses the reward model must set the same one in its tokenizer: a score is that of "
      "the last token that is another");
}

}  // namespace hone::config
