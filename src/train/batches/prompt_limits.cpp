#include "train/batches/prompt_limits.h"

#include "base/error.h"
#include "base/strings/plural.h"

namespace hone::train {

void limit_prompts(std::vector<data::TokenizedPrompt>& tokens, const std::vector<data::PromptRow>& rows,
                   const text::Tokenizer& tokenizer, const PromptLimits& limits) {
  const auto kept = static_cast<std::size_t>(limits.most_tokens);
  for (data::TokenizedPrompt& prompt : tokens) {
    if (kept == 0 || prompt.ids.size() <= kept) continue;
    prompt.ids.erase(prompt.ids.begin(), prompt.ids.end() - static_cast<std::ptrdiff_t>(kept));
    prompt.text = tokenizer.decode(prompt.ids, /*skip_special=*/false);
  }
  const std::string& option = limits.completion_option;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto length = static_cast<std::int64_t>(tokens[i].ids.size());
    if (length + limits.completion <= limits.positions) continue;
    throw base::UserError(
        {.where = rows[i].where,
         .expected = "a prompt that leaves room for " + option + " " + std::to_string(limits.completion) +
                     " within the model's " + std::to_string(limits.positions) + " positions",
         .found = base::counted(length, "token"),
         .cause =
             limits.positions_by_factors
                 ? "beyond original_max_position_embeddings longrope has other factors, for the whole sequence"
                 : "the model was not trained on later positions",
         .fix = "lower " + option + ", set max_prompt_length, or remove such prompts from the data"});
  }
}

}  // namespace hone::train
