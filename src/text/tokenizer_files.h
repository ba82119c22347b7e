// The files of a Hugging Face tokenizer folder, held in memory, and what they say together: the tokenizer
// that transformers' AutoTokenizer.from_pretrained makes of the same folder.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/file.h"
#include "base/json.h"
#include "text/tokenizer.h"
#include "text/tokenizer_class.h"

namespace hone::text {

// The names on disk, defined only here.
inline constexpr const char* kTokenizerJson = "tokenizer.json";
inline constexpr const char* kTokenizerConfig = "tokenizer_config.json";
inline constexpr const char* kSpecialTokensMap = "special_tokens_map.json";
inline constexpr const char* kAddedTokens = "added_tokens.json";
inline constexpr const char* kChatTemplate = "chat_template.jinja";
inline constexpr const char* kMoreTemplates = "additional_chat_templates";  // a folder of NAME.jinja

// Whether Tokenizer::save may write a file of this name.
bool is_tokenizer_file(std::string_view name);

struct TokenizerFiles {
  std::string where;                         // for errors: the folder, or the GGUF file
  std::map<std::string, std::string> files;  // name -> contents; tokenizer.json is always there
  ModelIdentity model;                       // of config.json beside them
  SpecialTokens special;
  ChatTemplates templates;

  // Filled by read_tokenizer_config.
  std::string class_name;    // text/tokenizer_class.h
  base::Json form;           // of hone_text_tokenizer_new
  bool changed = false;      // tokenizer.json by itself would have other added tokens, or other flags of them
  bool has_lengths = false;  // tokenizer.json keeps truncation or padding, which are not applied
  bool pad_of_padding = false;  // the pad token is that of the padding
  bool cleans_spaces = false;   // decoded text loses spaces before punctuation (clean_up_tokenization_spaces)
  std::optional<bool> says_bos, says_eos;  // add_bos_token, add_eos_token
  std::vector<std::string> notes;          // about what is not applied, each a sentence
};

// Reads a folder. UserError when it has no tokenizer.json: says what is there instead and what to do.
TokenizerFiles read_tokenizer_folder(const base::fs::path& folder);

// Fills what follows from `files` and `model`: special tokens (eot from eot_token, as gguf-py reads it),
// templates, class and form. UserError for what transformers refuses and for what hone does not have.
void read_tokenizer_config(TokenizerFiles& files);

// The templates, in transformers' order: chat_template.jinja with those of additional_chat_templates; else
// chat_template of tokenizer_config.json, a string or a list of {name, template}.
ChatTemplates read_templates(const TokenizerFiles& files, const base::Json& config);
// What Python reads from a text file: line ends of other systems become "\n".
std::string with_python_lines(std::string_view text);

// The error for a tokenizer.json that cannot be read.
[[noreturn]] void throw_unreadable(const TokenizerFiles& files, const std::string& found);

// tokenizer.json with the added tokens of the other files, and with the pipeline of a byte-level class: its
// own text where they change nothing.
std::string tokenizer_json_in_effect(const TokenizerFiles& files);

// The files as save() writes them: those that were read, changed where transformers would otherwise read
// another tokenizer from them without config.json beside them. `as_it_is`: the tokenizer in the format of
// tokenizer.json.
std::map<std::string, std::string> files_to_save(const TokenizerFiles& files, const std::string& as_it_is);

}  // namespace hone::text
