#include "text/clone_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "text/tokenizer_files.h"

namespace hone::text {
namespace {

constexpr std::size_t kMostNamed = 5;

// The added tokens of tokenizer.json that `tokenizer` lacks.
std::vector<std::string> new_tokens(const base::fs::path& folder, const Tokenizer& tokenizer) {
  const base::fs::path file = folder / kTokenizerJson;
  const base::Json json = base::parse_json(base::read_text(file), file.string());
  std::vector<std::string> out;
  const auto added = json.find("added_tokens");
  if (added == json.end()) return out;
  for (const base::Json& token : *added) {
    const std::string content = token.value("content", std::string());
    if (!content.empty() && !tokenizer.token_to_id(content)) out.push_back(content);
  }
  return out;
}

}  // namespace

void clone_chat_template(const base::fs::path& folder, Tokenizer& tokenizer) {
  const Tokenizer source = Tokenizer::from_folder(folder);
  const std::string where = "option chat_template_path";
  if (!source.chat_template()) {
    throw base::UserError({.where = where,
                           .expected = "a tokenizer with a chat template in " + folder.string(),
                           .found = "one without it",
                           .cause = "the tokenizer of a base model, not of an instruct model",
                           .fix = "name the folder of an instruct model, or a .jinja file"});
  }
  std::vector<std::string> lacking = new_tokens(folder, tokenizer);
  if (!lacking.empty()) {
    const std::size_t count = lacking.size();
    for (std::string& token : lacking) token = base::cut_text(token, 60);
    if (count > kMostNamed) lacking.resize(kMostNamed);
    throw base::UserError(
        {.where = where,
         .expected = "a folder whose added tokens are in the model's vocabulary",
         .found = fmt::format("{} that {} not: {}{}", count, count == 1 ? "is" : "are",
                              fmt::join(lacking, ", "), count > kMostNamed ? ", ..." : ""),
         .cause = "TRL gives such tokens new rows of the embedding, which hone does not add",
         .fix =
             "name a .jinja file, which only replaces the template, or save the model with these tokens first"});
  }
  tokenizer.set_chat_template(*source.chat_template());
  if (source.special().eos) tokenizer.set_eos(*source.special().eos);
}

}  // namespace hone::text
