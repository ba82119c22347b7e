// The tokenizer of a GGUF file, written as Hugging Face's files.
//
// A GGUF keeps a byte-level BPE as a list of tokens, a list of merges, a type for each token and the *name*
// of its pre-tokenizer (tokenizer.ggml.pre); what that name means is known only to its readers. Each is
// spelled here as the `tokenizers` crate's own pre-tokenizer, taken from the models' tokenizer.json:
//
//   smollm            each digit by itself, then GPT-2's pattern
//   gpt-2, default    GPT-2's pattern
//   llama-bpe         Llama 3's pattern (up to three digits together); whole words looked up before merging
//   qwen2             Qwen2's pattern (each digit by itself), after Unicode NFC
#pragma once

#include "base/gguf.h"
#include "text/tokenizer_files.h"

namespace hone::text {

// tokenizer.json, tokenizer_config.json, special_tokens_map.json and, when the file has one,
// chat_template.jinja. UserError for a model other than "gpt2" (byte-level BPE), an unknown pre-tokenizer,
// lists that are missing or of different lengths, a merge that is not two tokens, or a special id out of
// range.
TokenizerFiles tokenizer_files_from_gguf(const base::GgufFile& file);

}  // namespace hone::text
