// Tokens that are added to a tokenizer that was read.
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/strings/utf8.h"
#include "text/tokenizer.h"
#include "text/tokenizer_impl.h"

namespace hone::text {
namespace {

using base::Json;

// What tokenizer_config.json says of them. It names every added token: transformers adds those of other keys
// behind these, and a token that only such a key names would move behind the new ones.
Json decoder_of(const Json& added) {
  Json out = Json::object();
  for (Json token : added) {
    const std::string id = std::to_string(token.at("id").get<std::int64_t>());
    token.erase("id");
    out[id] = std::move(token);
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> Tokenizer::add_tokens(const std::vector<Json>& tokens) {
  std::vector<std::int64_t> ids;
  if (tokens.empty()) return ids;
  TokenizerFiles files = impl_->files;
  const std::string where = (base::fs::path(files.where) / kTokenizerJson).string();
  Json json = base::parse_json(files.files.at(kTokenizerJson), where);
  // Other files may name tokens that tokenizer.json lacks: the ids begin behind all that are in effect.
  Json added = base::parse_json(impl_->json(), where).at("added_tokens");
  std::int64_t next = vocab_size();
  for (const Json& one : added) next = std::max(next, one.at("id").get<std::int64_t>() + 1);
  for (Json token : tokens) {
    const std::string content = token.at("content").get<std::string>();
    if (token_to_id(content)) {
      throw base::UserError({.where = files.where,
                             .expected = "a token that the vocabulary does not have",
                             .found = base::cut_text(content, 100),
                             .cause = "it is one of its tokens",
                             .fix = "leave it out"});
    }
    token.erase("id");
    Json entry = {{"id", next}};
    entry.update(token);
    added.push_back(std::move(entry));
    ids.push_back(next++);
  }
  if (const auto settings = files.files.find(kTokenizerConfig); settings != files.files.end()) {
    Json config = base::parse_json(settings->second, files.where + "/" + kTokenizerConfig);
    if (config.is_object() && config.contains("added_tokens_decoder")) {
      config["added_tokens_decoder"] = decoder_of(added);
      settings->second = base::dump_json(config, 2) + "\n";
    }
  }
  json["added_tokens"] = added;
  files.files[kTokenizerJson] = base::dump_json(json, 2) + "\n";
  read_tokenizer_config(files);
  std::unique_ptr<Impl> made = Impl::make(std::move(files));
  for (const Json& token : added) {
    const std::string content = token.at("content").get<std::string>();
    const std::int64_t id = hone_text_token_to_id(made->handle.get(), content.data(), content.size());
    if (id == token.at("id").get<std::int64_t>()) continue;
    throw base::UserError(
        {.where = where,
         .expected = "the id " + base::dump_json(token.at("id")) + " for the token " +
                     base::cut_text(content, 100) + ", when tokens are added",
         .found = "the id " + std::to_string(id),
         .cause = "the ids of the added tokens have gaps, or the files contradict each other",
         .fix = "save the tokenizer once in Python with these tokens, "
                "tokenizer.add_tokens([...]) and tokenizer.save_pretrained(FOLDER)"});
  }
  impl_ = std::move(made);
  return ids;
}

}  // namespace hone::text
