// Tokens that are added to a tokenizer that was read.
#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/tokenizer.h"
#include "text/tokenizer_impl.h"

namespace hone::text {

std::vector<std::int64_t> Tokenizer::add_tokens(const std::vector<base::Json>& tokens) {
  std::vector<std::int64_t> ids;
  if (tokens.empty()) return ids;
  TokenizerFiles files = impl_->files;
  base::Json json = base::parse_json(files.files.at(kTokenizerJson), files.where + "/" + kTokenizerJson);
  base::Json& added = json["added_tokens"];
  if (!added.is_array()) added = base::Json::array();
  std::int64_t next = vocab_size();
  for (const base::Json& one : added) next = std::max(next, one.at("id").get<std::int64_t>() + 1);
  const auto settings = files.files.find(kTokenizerConfig);
  base::Json config;
  if (settings != files.files.end())
    config = base::parse_json(settings->second, files.where + "/" + kTokenizerConfig);
  const bool decodes = config.is_object() && config.contains("added_tokens_decoder");
  for (base::Json token : tokens) {
    const std::string content = token.at("content").get<std::string>();
    if (token_to_id(content)) {
      throw base::UserError({.where = files.where,
                             .expected = "a token that the vocabulary does not have",
                             .found = base::cut_text(content, 100),
                             .cause = "it is one of its tokens",
                             .fix = "leave it out"});
    }
    token.erase("id");
    if (decodes) config["added_tokens_decoder"][std::to_string(next)] = token;
    base::Json entry = {{"id", next}};
    entry.update(token);
    added.push_back(std::move(entry));
    ids.push_back(next++);
  }
  files.files[kTokenizerJson] = base::dump_json(json, 2) + "\n";
  if (decodes) settings->second = base::dump_json(config, 2) + "\n";
  read_tokenizer_config(files);
  impl_ = Impl::make(std::move(files));
  return ids;
}

}  // namespace hone::text
