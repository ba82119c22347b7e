// Pairs as a reward model reads them: two whole sequences, as TRL 1.16's RewardTrainer prepares them
// (_prepare_dataset).
//
// Rows are those of data/forms/preferences.h, with or without a column `prompt`, and perhaps `margin` (a number):
//   {"prompt": "2 + 3 =", "chosen": " 5", "rejected": " 6", "margin": 1.5}
//   {"chosen": [{"role": "user", ...}, {"role": "assistant", ...}], "rejected": [...]}
//   {"chosen_ids": [..], "rejected_ids": [..]}   tokens, taken as they are
// Text: prompt + completion in one piece, EOS appended to a completion that does not end with it, special
// tokens added (BOS). Messages: prompt and completion in one rendering, without the generation prompt. A pair
// one of whose sequences is longer than max_length is left out: nothing is ever cut.
//
// A score is read at a sequence's last token that is not the pad token, so that the pad tokens after it
// (an EOS that is the pad token too) change nothing and are left out of `ids`; they are counted.
#pragma once

#include <vector>

#include "data/forms/preferences.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::data {

// Context of a sequence: what the two begin with (all but the last token of the shorter one at most; where
// they differ from the start, each its own first token). Scored: the rest up to the token that has the score,
// at least one. Completion: tokens of the rest with the pad tokens at the end. A context is empty only beside
// a sequence of one token. UserError: messages without a chat template, text without an EOS to append, a
// sequence without tokens, a token id outside the embedding.
std::vector<PairDone> make_reward_pairs(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
                                        const text::ChatTemplate* chat_template, const PairOptions& options);

}  // namespace hone::data
