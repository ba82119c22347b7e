#include "train/opening/prompt_form.h"

namespace hone::train {

namespace {

// The system turn of DeepSeek-R1-Zero (arXiv 2501.12948, Table 1), as the scripts of X-R1 and of the first
// open-r1 have it. The reward `format` wants what it asks for.
constexpr const char* kR1SystemTurn =
    "A conversation between User and Assistant. The user asks a question, and the Assistant solves it. The "
    "assistant first thinks about the reasoning process in the mind and then provides the user with the answer. "
    "The reasoning process and answer are enclosed within <think> </think> and <answer> </answer> tags, "
    "respectively, i.e., <think> reasoning process here </think><answer> answer here </answer>";

}  // namespace

data::PromptForm prompt_form(const config::Plan& plan) {
  data::PromptForm form = {.system = plan.system_prompt, .column = plan.dataset_prompt_column};
  form.splits_messages = plan.method == config::Method::kDistill;
  if (plan.rows_without_prompt == "refuse") return form;
  form.column_without_prompt = "problem";
  if (plan.rows_without_prompt == "problem_r1") form.system_without_prompt = kR1SystemTurn;
  return form;
}

}  // namespace hone::train
