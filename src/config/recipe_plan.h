// Recipes ask for these beside TRL 1.16's options: options that earlier versions had, and those of
// alignment-handbook and open-r1.
#pragma once

#include <cstdint>
#include <string>

namespace hone::config {

struct RecipePlan {
  std::int64_t max_prompt_length = 0;  // tokens, the prompt's last ones; 0: off
  bool overwrite_output_dir = false;   // an earlier run in output_dir is removed
  std::string chat_template;           // Jinja text instead of the tokenizer's own; empty: that
  std::string tokenizer_name_or_path;  // a folder; empty: the model's
  std::string system_prompt;           // a system turn before each prompt; empty: none
  bool auto_insert_empty_system_msg =
      false;                          // data/forms/system_turn.h, where the template knows system turns
  std::string dataset_prompt_column;  // whose text becomes a user's turn; empty: the rows have `prompt`
  std::string rows_without_prompt = "refuse";  // or "problem", "problem_r1" (train/opening/prompt_form.h)

  bool operator==(const RecipePlan&) const = default;
};

}  // namespace hone::config
