// The special and added tokens of a tokenizer folder, as transformers 5.23 finds them in its files.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/tokenizer_class.h"

namespace hone::text {

// What the folder's files say of tokens; null Json: there is no such file.
struct TokenSources {
  std::string where;       // the folder, for errors
  base::Json config;       // tokenizer_config.json, {} where it is absent
  base::Json special_map;  // special_tokens_map.json
  base::Json added;        // added_tokens.json
  base::Json outline;      // tokenizer.json without vocabulary
  std::string class_name;  // text/tokenizer_class.h
};

struct FoundTokens {
  // The named tokens in transformers' order: bos_token to mask_token, then the model's own ("image_token").
  std::vector<std::pair<std::string, std::string>> named;
  // Lists of tokens that transformers adds to the tokenizer of tokenizer.json, one after the other: `add` of
  // hone_text_tokenizer_new.
  base::Json add;
  // The pipeline of the class, null for tokenizer.json's: `pipeline` of hone_text_tokenizer_new.
  base::Json pipeline;
  bool changes = false;         // whether `add` adds a token to tokenizer.json, or changes the flags of one
  bool pad_of_padding = false;  // the pad token is that of the padding that tokenizer.json keeps
};

// As PreTrainedTokenizerBase._from_pretrained and TokenizersBackend.__init__ (tokenization_utils_base.py,
// tokenization_utils_tokenizers.py) do. UserError for values that they refuse.
FoundTokens find_tokens(const TokenSources& sources);

}  // namespace hone::text
