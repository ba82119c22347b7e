#include "train/prompt_form.h"

namespace hone::train {

const std::string& r1_system_turn() {
  static const std::string text =
      "A conversation between User and Assistant. The user asks a question, and the Assistant solves it. The "
      "assistant first thinks about the reasoning process in the mind and then provides the user with the answer. "
      "The reasoning process and answer are enclosed within <think> </think> and <answer> </answer> tags, "
      "respectively, i.e., <think> reasoning process here </think><answer> answer here </answer>";
  return text;
}

data::PromptForm prompt_form(const config::Plan& plan) {
  data::PromptForm form = {.system = plan.system_prompt, .column = plan.dataset_prompt_column};
  if (plan.rows_without_prompt == "refuse") return form;
  form.column_without_prompt = "problem";
  if (plan.rows_without_prompt == "problem_r1") form.system_without_prompt = r1_system_turn();
  return form;
}

}  // namespace hone::train
