#include "text/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace hone::text {
namespace {

using base::Json;

// transformers' SPECIAL_TOKENS_ATTRIBUTES: the tokens that a template may name.
constexpr std::array kNamedTokens = {"bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token"};
// Copied along by save(); only the first is needed.
constexpr std::array kKeptFiles = {kTokenizerJson, kTokenizerConfig, kSpecialTokensMap,   kChatTemplate,
                                   "vocab.json",   "merges.txt",     "added_tokens.json", "tokenizer.model"};

std::vector<std::string> names_in(const base::fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : base::fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// "a, b, c and 4 more" or "nothing".
std::string list_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  if (names.empty()) return "an empty folder";
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) out += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMost) out += fmt::format(" and {} more", names.size() - kMost);
  return out;
}

[[noreturn]] void throw_no_tokenizer(const base::fs::path& folder) {
  const auto names = names_in(folder);
  const auto has = [&names](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto gguf = std::find_if(names.begin(), names.end(), [](const std::string& name) {
    return base::fs::path(name).extension() == ".gguf";
  });
  base::ErrorText text{
      .where = folder.string(),
      .expected = "a folder with tokenizer.json",
      .found = list_names(names),
      .cause = "the model was downloaded without its tokenizer, or this is another folder",
      .fix = "download tokenizer.json and tokenizer_config.json of the same model into this folder"};
  if (gguf != names.end()) {
    text.cause = "a GGUF file carries its own tokenizer";
    text.fix = fmt::format("name the file itself: {}", (folder / *gguf).string());
  } else if (has("adapter_config.json")) {
    text.cause = "this is an adapter; the tokenizer is in the folder of its base model";
    text.fix = "name the folder of the base model";
  } else if (has("tokenizer.model") || has("vocab.json")) {
    text.cause = "the tokenizer is in an older format";
    text.fix = fmt::format(
        "convert it once, in Python: "
        "transformers.AutoTokenizer.from_pretrained(\"{0}\").save_pretrained(\"{0}\")",
        folder.string());
  }
  throw base::UserError(std::move(text));
}

// A token is written as its text, or as an AddedToken object with its text in "content".
std::optional<std::string> token_text(const Json& config, const char* name) {
  const auto it = config.find(name);
  if (it == config.end()) return std::nullopt;
  if (it->is_string()) return it->get<std::string>();
  if (it->is_object() && it->contains("content") && (*it)["content"].is_string())
    return (*it)["content"].get<std::string>();
  return std::nullopt;
}

std::optional<std::string> template_of(const Json& config, const std::string& where) {
  const auto it = config.find("chat_template");
  if (it == config.end() || it->is_null()) return std::nullopt;
  if (it->is_string()) return it->get<std::string>();
  if (it->is_array()) {
    for (const Json& entry : *it) {
      if (!entry.is_object() || token_text(entry, "name") != "default") continue;
      if (const auto source = token_text(entry, "template")) return source;
    }
    return std::nullopt;
  }
  throw base::UserError({.where = where + ", chat_template",
                         .expected = "a string, or a list of objects with name and template",
                         .found = it->type_name(),
                         .cause = "",
                         .fix = "download the file from the model's repository again"});
}

Json parse_object(const TokenizerFiles& files, const char* name) {
  const auto it = files.files.find(name);
  if (it == files.files.end()) return Json::object();
  const std::string where = (base::fs::path(files.where) / name).string();
  Json parsed = base::parse_json(it->second, where);
  if (parsed.is_object()) return parsed;
  throw base::UserError({.where = where,
                         .expected = "a JSON object",
                         .found = parsed.type_name(),
                         .cause = "",
                         .fix = "download the file from the model's repository again"});
}

}  // namespace

void read_tokenizer_config(TokenizerFiles& files) {
  const Json config = parse_object(files, kTokenizerConfig);
  const Json tokens = parse_object(files, kSpecialTokensMap);
  for (const char* name : kNamedTokens) {
    auto text = token_text(config, name);
    if (!text && !config.contains(name)) text = token_text(tokens, name);
    if (text) files.special.named[name] = *text;
  }
  files.special.eot = token_text(config, "eot_token");
  const auto named = [&files](const char* name) -> std::optional<std::string> {
    const auto it = files.special.named.find(name);
    return it == files.special.named.end() ? std::nullopt : std::optional(it->second);
  };
  files.special.bos = named("bos_token");
  files.special.eos = named("eos_token");
  files.special.pad = named("pad_token");
  files.special.unk = named("unk_token");
  if (const auto it = files.files.find(kChatTemplate); it != files.files.end()) {
    files.chat_template = it->second;
  } else {
    files.chat_template = template_of(config, (base::fs::path(files.where) / kTokenizerConfig).string());
  }
}

TokenizerFiles read_tokenizer_folder(const base::fs::path& folder) {
  if (!base::fs::is_directory(folder)) {
    const bool exists = base::fs::exists(folder);
    throw base::UserError({.where = folder.string(),
                           .expected = "a folder with tokenizer.json",
                           .found = exists ? "a file" : "nothing there",
                           .cause = exists ? "" : "a misspelled path, or a model that is not on this machine",
                           .fix = "give the path of a folder with the model's files"});
  }
  if (!base::fs::exists(folder / kTokenizerJson)) throw_no_tokenizer(folder);
  TokenizerFiles out;
  out.where = folder.string();
  for (const char* name : kKeptFiles) {
    if (base::fs::exists(folder / name)) out.files[name] = base::read_text(folder / name);
  }
  read_tokenizer_config(out);
  return out;
}

}  // namespace hone::text
