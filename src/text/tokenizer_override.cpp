// What a run may replace in a tokenizer: its chat template and its end-of-sequence token.
#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer.h"
#include "text/tokenizer_impl.h"

namespace hone::text {

void Tokenizer::set_chat_template(std::string source) {
  auto& files = impl_->files.files;
  std::erase_if(files, [](const auto& file) { return file.first.starts_with(kMoreTemplates); });
  files[kChatTemplate] = source;
  // As transformers saves it: one template in one place, since not every reader prefers the same one.
  if (const auto file = files.find(kTokenizerConfig); file != files.end()) {
    base::Json json = base::parse_json(file->second, impl_->files.where + "/" + kTokenizerConfig);
    if (json.is_object() && json.erase("chat_template") > 0) file->second = base::dump_json(json, 2) + "\n";
  }
  impl_->files.templates = {.main = std::move(source), .named = {}};
}

void Tokenizer::set_eos(const std::string& token) {
  const auto id = token_to_id(token);
  if (!id) {
    throw base::UserError({.where = "eos_token " + token,
                           .expected = "a token of the vocabulary",
                           .found = "no such token in " + impl_->files.where,
                           .cause = "a misspelled token, or one of another model",
                           .fix = "name one of the model's special tokens, or leave eos_token out"});
  }
  TokenizerFiles& files = impl_->files;
  files.special.eos = token;
  files.special.named["eos_token"] = token;
  impl_->eos_id = id;
  if (!files.special.pad) impl_->pad_id = id;
  files.files.try_emplace(kTokenizerConfig, "{}");
  for (const char* name : {kTokenizerConfig, kSpecialTokensMap}) {
    const auto file = files.files.find(name);
    if (file == files.files.end()) continue;
    base::Json json = base::parse_json(file->second, files.where + "/" + name);
    json["eos_token"] = token;
    file->second = base::dump_json(json, 2) + "\n";
  }
}

}  // namespace hone::text
