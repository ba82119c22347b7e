#include "text/clone_template.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/path_kind.h"
#include "text/tokenizer_files.h"

namespace hone::text {
namespace {

// The added tokens of `folder` that `tokenizer` lacks, as tokenizer.json has them, by their ids there.
std::vector<base::Json> new_tokens(const base::fs::path& folder, const Tokenizer& tokenizer) {
  const base::fs::path file = folder / kTokenizerJson;
  const base::Json json = base::parse_json(base::read_text(file), file.string());
  std::map<std::int64_t, base::Json> by_id;
  if (const auto added = json.find("added_tokens"); added != json.end() && added->is_array()) {
    for (const base::Json& token : *added) by_id[token.at("id").get<std::int64_t>()] = token;
  }
  // tokens that only the settings name
  if (const base::fs::path settings = folder / kTokenizerConfig; base::exists(settings)) {
    const base::Json config = base::parse_json(base::read_text(settings), settings.string());
    const base::Json named =
        config.is_object() ? config.value("added_tokens_decoder", base::Json()) : base::Json();
    if (named.is_object()) {
      for (const auto& [id, token] : named.items()) {
        const bool number =
            !id.empty() && id.size() < 10 && id.find_first_not_of("0123456789") == std::string::npos;
        if (number && token.is_object()) by_id.try_emplace(std::stoll(id), token);
      }
    }
  }
  std::vector<base::Json> out;
  for (auto& [id, token] : by_id) {
    const std::string content = token.value("content", std::string());
    if (!content.empty() && !tokenizer.token_to_id(content)) out.push_back(std::move(token));
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> clone_chat_template(const base::fs::path& folder, Tokenizer& tokenizer) {
  const Tokenizer source = Tokenizer::from_folder(folder);
  const std::string where = "option chat_template_path";
  if (!source.chat_template()) {
    throw base::UserError({.where = where,
                           .expected = "a tokenizer with a chat template in " + folder.string(),
                           .found = "one without it",
                           .cause = "the tokenizer of a base model, not of an instruct model",
                           .fix = "name the folder of an instruct model, or a .jinja file"});
  }
  std::vector<std::int64_t> added = tokenizer.add_tokens(new_tokens(folder, tokenizer));
  tokenizer.set_chat_template(*source.chat_template());
  if (source.special().eos) tokenizer.set_eos(*source.special().eos);
  return added;
}

std::vector<std::int64_t> fill_vocabulary(std::int64_t rows, Tokenizer& tokenizer) {
  std::vector<base::Json> fillers;
  for (std::int64_t number = 0; tokenizer.vocab_size() + static_cast<std::int64_t>(fillers.size()) < rows;
       ++number) {
    const std::string content = fmt::format("<extra_id_{}>", number);
    if (tokenizer.token_to_id(content)) continue;
    fillers.push_back({{"content", content},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", true},
                       {"special", false}});
  }
  return tokenizer.add_tokens(fillers);
}

}  // namespace hone::text
