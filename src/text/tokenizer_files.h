// The files of a Hugging Face tokenizer folder, held in memory, and what tokenizer_config.json says.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/file.h"
#include "text/tokenizer.h"

namespace hone::text {

// The names on disk, defined only here.
inline constexpr const char* kTokenizerJson = "tokenizer.json";
inline constexpr const char* kTokenizerConfig = "tokenizer_config.json";
inline constexpr const char* kSpecialTokensMap = "special_tokens_map.json";
inline constexpr const char* kChatTemplate = "chat_template.jinja";

struct TokenizerFiles {
  std::string where;                         // for errors: the folder, or the GGUF file
  std::map<std::string, std::string> files;  // name -> contents; tokenizer.json is always there
  SpecialTokens special;
  std::optional<std::string> chat_template;
};

// Reads a folder. UserError when it has no tokenizer.json: says what is there instead and what to do.
TokenizerFiles read_tokenizer_folder(const base::fs::path& folder);

// Fills `special` (eot from eot_token, as gguf-py reads it) and `chat_template` from `files`. The template is,
// in transformers' order, chat_template.jinja, else chat_template of tokenizer_config.json: a string, or a list
// of {name, template} of which "default" is taken.
void read_tokenizer_config(TokenizerFiles& files);

}  // namespace hone::text
