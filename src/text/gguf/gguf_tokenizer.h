// The tokenizer of a GGUF file, written as Hugging Face's files.
//
// A GGUF keeps a byte-level BPE as a list of tokens, a list of merges, a type for each token and the *name*
// of its pre-tokenizer (tokenizer.ggml.pre); what that name means is known only to its readers. Each is
// spelled here as the `tokenizers` crate's own pre-tokenizer, taken from the models' tokenizer.json:
//
//   smollm, refact, starcoder   each digit by itself, then GPT-2's pattern (SmolLM2, Granite 3)
//   gpt-2, default              GPT-2's pattern
//   olmo                        the same, after Unicode NFC (OLMoE)
//   llama-bpe, llama3, llama-v3, lfm2, pixtral
//                               Llama 3's pattern (up to three digits together); whole words looked up before
//                               merging (Llama 3, SmolLM3, LFM2)
//   dbrx, smaug-bpe             Llama 3's pattern, merges only (OLMo 2, Phi-4)
//   qwen2                       Qwen2's pattern (each digit by itself), after Unicode NFC (Qwen 2 to 3)
//   qwen35                      the same with marks as a part of words (Qwen3.5)
//   tekken                      Tekken's pattern; whole words looked up before merging (Ministral)
//   gpt-4o                      GPT-4o's pattern (Phi-4-mini)
//
// A SentencePiece tokenizer is a list of pieces with scores; text/gguf/gguf_pieces.h says what becomes of them.
#pragma once

#include "base/gguf/gguf.h"
#include "text/tokenizer_files.h"

namespace hone::text {

// tokenizer.json, tokenizer_config.json, special_tokens_map.json and, when the file has one,
// chat_template.jinja. tokenizer_config.json names tokenizer.ggml.eot_token_id as eot_token, gguf-py's name for
// it. UserError for a model other than "gpt2" (byte-level BPE), "llama" (SentencePiece) and "gemma4"
// (SentencePiece's pieces with merges), an unknown pre-tokenizer, lists that are missing or of different lengths,
// a merge that is not two tokens, scores that order nothing, or a special id out of range.
TokenizerFiles tokenizer_files_from_gguf(const base::GgufFile& file);

}  // namespace hone::text
