#include "text/clone_template.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "text/tokenizer_files.h"

namespace hone::text {
namespace {

// The added tokens of `source`, which is the tokenizer of `folder`, that `tokenizer` lacks, by their ids
// there.
std::vector<base::Json> new_tokens(const base::fs::path& folder, const Tokenizer& source,
                                   const Tokenizer& tokenizer) {
  const base::Json json = base::parse_json(tokenizer_json_in_effect(read_tokenizer_folder(folder)),
                                           (folder / kTokenizerJson).string());
  std::map<std::int64_t, base::Json> by_id;
  if (const auto added = json.find("added_tokens"); added != json.end() && added->is_array()) {
    for (const base::Json& token : *added) {
      const std::string content = token.value("content", std::string());
      // A class with a pipeline of its own leaves tokens of tokenizer.json out where other files name them.
      const auto id = source.token_to_id(content);
      if (!content.empty() && id && !tokenizer.token_to_id(content)) by_id[*id] = token;
    }
  }
  std::vector<base::Json> out;
  for (auto& [id, token] : by_id) out.push_back(std::move(token));
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
  std::vector<std::int64_t> added = tokenizer.add_tokens(new_tokens(folder, source, tokenizer));
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
