// The class of transformers that reads a tokenizer folder, and the pipeline that it gives its tokenizer.
//
// transformers 5 reads tokenizer.json as it is in some classes (TokenizersBackend); others take only the
// vocabulary, the merges and the post-processor, and put them into a pipeline of their own. Which class is
// taken follows from tokenizer_config.json and config.json (models/auto/tokenization_auto.py,
// AutoTokenizer.from_pretrained, 5.23).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace hone::text {

enum class ClassKind {
  kGeneric,      // takes tokenizer.json as it is
  kOwnPipeline,  // hone has its pipeline
  kOther,        // a class of transformers that hone does not have
  kUnknown,      // no class of transformers, which then takes the generic one
};
struct KnownClass {
  ClassKind kind;
  std::string_view name;  // without "Fast"; "TokenizersBackend" of the generic ones
};
KnownClass known_class(std::string_view name);
std::string_view without_fast(std::string_view name);
// The class that transformers registers for config.json's model_type; "" for one that hone does not have.
std::optional<std::string_view> registered_class(std::string_view model_type);
// Types whose own class is taken in place of the one that tokenizer_config.json names.
bool names_wrong_class(std::string_view model_type);

// What config.json says about the tokenizer; empty where there is no such file.
struct ModelIdentity {
  std::string model_type, model_name;
  std::optional<std::string> tokenizer_class;
  bool may_be_patched = false;  // transformers heeds fix_mistral_regex
};

// The class's name, "TokenizersBackend" or one with a pipeline of its own. `config`: tokenizer_config.json;
// `byte_level`: tokenizer.json has a ByteLevel part. UserError for a class that hone does not have.
std::string tokenizer_class(const base::Json& config, const ModelIdentity& model, bool byte_level,
                            const std::string& where);

struct ClassForm {
  // `pipeline` of hone_text_tokenizer_new; null: tokenizer.json's.
  base::Json pipeline;
  // The named tokens that the class sets where the config does not: a text, or null.
  std::vector<std::pair<std::string, base::Json>> defaults = {};
  // Named tokens of the class alone, which it also adds to additional_special_tokens.
  std::vector<std::pair<std::string, base::Json>> own = {};
};
// `settings`: tokenizer_config.json, with the named tokens as they are in effect.
ClassForm form_of_class(std::string_view name, const base::Json& settings);

}  // namespace hone::text
