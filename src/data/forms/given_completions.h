// The completions that rows of prompts bring along: what distillation trains on where nobody samples.
//
//   {"prompt": "2 + 3 =", "completion": " 5"}
//   {"messages": [{"role": "user", ...}, {"role": "assistant", ...}]}    data/forms/prompts.h splits it
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "data/forms/prompts.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::data {

// One row. A token that belongs to the prompt and to the completion counts for the completion.
struct GivenCompletion {
  std::vector<std::int32_t> prompt, ids;
};

// As TRL 1.16's collator of GKDTrainer: prompt and completion are rendered and encoded together, and the completion begins where
// the prompt ends. A completion of text ends with the EOS. UserError naming the row: no completion, one of another kind than the
// prompt, one without tokens, an id that `vocab_size` > 0 does not have.
std::vector<GivenCompletion> tokenize_completions(const std::vector<PromptRow>& rows,
                                                  const text::Tokenizer& tokenizer,
                                                  const text::ChatTemplate* chat_template,
                                                  const base::Json& template_kwargs,
                                                  std::int64_t vocab_size = 0);

}  // namespace hone::data
