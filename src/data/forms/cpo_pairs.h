// Pairs as TRL 1.16's experimental CPOTrainer and ORPOTrainer prepare them (tokenize_row, the same in both).
//
// Rows are those of data/forms/preferences.h, read with ImplicitPrompts::kExtractMixed.
//
// Text: a conversation is rendered first, the prompt with the generation prompt, or, where its last message is
// the assistant's, up to the end of that message; the prompt is then what its own rendering, prompt + chosen
// and prompt + rejected begin with, in characters.
// Tokens: the prompt, prompt + chosen and prompt + rejected are encoded without special tokens. A side's prompt
// is as long as the prompt's own encoding, or one token shorter where the encoding changes when a completion
// follows. The tokenizer's BOS goes before a prompt that does not begin with it, its EOS behind a completion
// that does not end with it, also of conversations. A sequence longer than max_length keeps its first
// max_length tokens.
//
// `max_prompt_length` is that of TRL's CPOTrainer and ORPOTrainer up to 0.29, and of SimPO's: where a prompt with the
// longer of the two completions exceeds max_length, the prompt keeps its last max_prompt_length tokens; if that is
// not enough, a completion keeps its first max_length - max_prompt_length tokens.
//
// Differences from TRL: a pair whose prompt fills max_length is dropped (TRL keeps it, and the mean of no
// log-probabilities is not a number); a row's `tools` are given to the template (TRL ignores them).
#pragma once

#include "data/forms/preferences.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::data {

// The two sides of a pair may have prompts that differ in their last token. UserError: messages without a chat
// template, a tokenizer without an EOS, a prompt whose last message is neither the user's, a tool's nor the
// assistant's, prompts of the two sides that differ in more than a token, a sequence of one token, a token id
// outside the embedding. Of several bad rows the first is named.
std::vector<PairDone> make_cpo_pairs(const PreferenceRows& rows, const text::Tokenizer& tokenizer,
                                     const text::ChatTemplate* chat_template, const PairOptions& options);

}  // namespace hone::data
