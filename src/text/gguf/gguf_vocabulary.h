// A Hugging Face tokenizer as the metadata of a GGUF: the other direction of gguf_tokenizer.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/gguf/gguf_write.h"
#include "text/tokenizer_files.h"

namespace hone::text {

// What config.json says of tokens that the tokenizer's files do not name.
struct SpecialIds {
  std::optional<std::int64_t> bos, eos, pad;
};

// tokenizer.ggml.*: model "gpt2", the pre-tokenizer's name, `rows` tokens and their types (rows of the
// embedding without a token are unused "[PAD17]"), merges, ids of special tokens, whether BOS or EOS is
// added, and tokenizer.chat_template. SentencePiece is model "llama", with scores instead of merges
// (text/gguf/gguf_pieces.h), and whether a space stands before the text; or "gemma4", with merges, where no scores
// stand for them and no space does. Types are llama.cpp's converter's: added tokens that are special, or look
// special ("<|...|>"), are control tokens, other added ones are user-defined. eot_token_id is the token that
// ends an answer in the chat template (text/turn_end.h), where that is not EOS.
// UserError for a tokenizer that is not BPE, a pre-tokenizer whose name hone does not know, merges that no
// scores stand for, a token id beyond `rows`, or two tokens of one id.
std::vector<base::GgufEntry> gguf_vocabulary(const TokenizerFiles& files, std::int64_t rows,
                                             const SpecialIds& fallback);

}  // namespace hone::text
