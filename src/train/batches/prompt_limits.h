// How long prompts may be: cut to max_prompt_length, and short enough for a completion within the model's positions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/forms/prompts.h"
#include "text/tokenizer.h"

namespace hone::train {

struct PromptLimits {
  std::int64_t most_tokens = 0;       // max_prompt_length, whose last tokens stay; 0: no bound
  std::int64_t completion = 0;        // the most tokens of a completion
  std::string completion_option;      // that says so, for messages
  std::int64_t positions = 0;         // of the model for what it generates
  bool positions_by_factors = false;  // beyond them longrope has other factors
};

// `rows` are those of `tokens`. UserError naming the row of a prompt that leaves no room for a completion.
void limit_prompts(std::vector<data::TokenizedPrompt>& tokens, const std::vector<data::PromptRow>& rows,
                   const text::Tokenizer& tokenizer, const PromptLimits& limits);

}  // namespace hone::train
