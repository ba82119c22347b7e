#include "text/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/strings/utf8.h"
#include "text/ffi.h"
#include "text/folder_tokens.h"
#include "text/tokenizer_keys.h"

namespace hone::text {
namespace {

using base::Json;

// Copied along by save(); only the first is needed.
constexpr std::array kKeptFiles = {kTokenizerJson, kTokenizerConfig, kSpecialTokensMap, kChatTemplate,
                                   kAddedTokens,   "vocab.json",     "merges.txt",      "tokenizer.model"};

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

// An object, or null where there is no such file.
Json parse_object(const TokenizerFiles& files, const char* name) {
  const auto it = files.files.find(name);
  if (it == files.files.end()) return nullptr;
  const std::string where = (base::fs::path(files.where) / name).string();
  Json parsed = base::parse_json(it->second, where);
  if (parsed.is_object()) return parsed;
  throw base::UserError({.where = where,
                         .expected = "a JSON object",
                         .found = parsed.type_name(),
                         .cause = "",
                         .fix = "download the file from the model's repository again"});
}

// tokenizer.json without its vocabulary.
Json outline_of(const TokenizerFiles& files) {
  const auto it = files.files.find(kTokenizerJson);
  if (it == files.files.end()) return Json::object();
  RustText outline, message;
  const int status =
      hone_text_tokenizer_outline(it->second.data(), it->second.size(), outline.out(), message.out());
  if (status != HONE_TEXT_OK)
    throw_unreadable(files, (status == HONE_TEXT_LIMIT ? "a file that " : "") + message.str());
  return base::parse_json(outline.view(), (base::fs::path(files.where) / kTokenizerJson).string());
}

std::optional<std::string> text_member(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? std::optional(it->get<std::string>()) : std::nullopt;
}

// Models whose pre-tokenizer transformers exchanges when the config says fix_mistral_regex, for files of its
// versions before 5 (TokenizersBackend._patch_mistral_regex).
bool may_be_patched(const Json& config) {
  constexpr std::array kTypes = {"mistral", "mistral3", "voxtral", "ministral", "pixtral"};
  const std::string version = text_member(config, "transformers_version").value_or("0");
  const auto type = text_member(config, "model_type");
  return version.find_first_of("01234") == 0 && version.find('.') <= 1 &&
         (!type || std::find(kTypes.begin(), kTypes.end(), *type) != kTypes.end());
}

ModelIdentity identity_in(const base::fs::path& folder) {
  const base::fs::path file = folder / "config.json";
  std::error_code ec;
  if (!base::fs::is_regular_file(file, ec)) return {};
  const Json config = base::parse_json(base::read_text(file), file.string());
  if (!config.is_object()) return {};
  return {.model_type = text_member(config, "model_type").value_or(""),
          .model_name = text_member(config, "model_name").value_or(""),
          .tokenizer_class = text_member(config, "tokenizer_class"),
          .may_be_patched = may_be_patched(config)};
}

void check_mistral_pattern(const TokenizerFiles& files, const Json& config) {
  const Json& fix = tokenizer_config_keys().at(config, "fix_mistral_regex");
  if (fix != Json(true) || !files.model.may_be_patched) return;
  throw base::UserError(
      {.where = (base::fs::path(files.where) / kTokenizerConfig).string() + ", fix_mistral_regex",
       .expected = "a tokenizer.json with the right pre-tokenizer",
       .found = "true: transformers exchanges the pre-tokenizer at each load",
       .cause = "a Mistral model whose first tokenizer.json had a wrong pattern",
       .fix =
           "save it once in Python, AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OTHER), and take "
           "tokenizer.json and tokenizer_config.json of OTHER without this key"});
}

void note_unknown_keys(TokenizerFiles& files, const Json& config, const Json& map, const Json& outline) {
  const auto note = [&](const base::ReadKeys& keys, const Json& object) {
    std::string text = note_of_unmarked(keys, object);
    if (!text.empty()) files.notes.push_back(std::move(text));
  };
  note(tokenizer_config_keys(), config);
  note(special_tokens_map_keys(), map);
  note(tokenizer_json_keys(), outline);
  const auto note_first = [&](const Json& tokens) {
    if (!tokens.is_structured()) return;
    for (const Json& token : tokens) {
      std::string text = note_of_unmarked(added_token_keys(), token);
      if (text.empty()) continue;
      files.notes.push_back(std::move(text));
      return;
    }
  };
  note_first(tokenizer_config_keys().at(config, "added_tokens_decoder"));
  note_first(tokenizer_json_keys().at(outline, "added_tokens"));
}

std::optional<bool> config_flag(const Json& config, const char* key) {
  const Json& value = tokenizer_config_keys().at(config, key);
  return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
}

// PreTrainedTokenizerFast._decode: not for BPE, unless a second key insists.
bool cleans_spaces(const Json& config, const Json& outline) {
  const Json& model = tokenizer_json_keys().at(outline, "model");
  const bool bpe = !model.is_object() || text_member(model, "type").value_or("BPE") == "BPE";
  return config_flag(config, "clean_up_tokenization_spaces").value_or(false) &&
         (!bpe ||
          config_flag(config, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output")
              .value_or(false));
}

void set_tokens(TokenizerFiles& files, FoundTokens found) {
  for (auto& [name, token] : found.named) files.special.named[name] = token;
  const auto named = [&files](const char* name) -> std::optional<std::string> {
    const auto it = files.special.named.find(name);
    return it == files.special.named.end() ? std::nullopt : std::optional(it->second);
  };
  files.special.bos = named("bos_token");
  files.special.eos = named("eos_token");
  files.special.pad = named("pad_token");
  files.special.unk = named("unk_token");
  files.changed = found.changes;
  files.pad_of_padding = found.pad_of_padding;
  files.form = {{"pipeline", std::move(found.pipeline)}, {"add", std::move(found.add)}};
}

// A class with a pipeline of its own takes a BPE model's vocabulary and merges.
void check_model(const TokenizerFiles& files, const Json& outline) {
  const Json& model = tokenizer_json_keys().at(outline, "model");
  if (files.form["pipeline"].is_null() || !model.is_object()) return;
  const std::string type = text_member(model, "type").value_or("BPE");
  const bool affixes = !text_member(model, "continuing_subword_prefix").value_or("").empty() ||
                       !text_member(model, "end_of_word_suffix").value_or("").empty();
  if (type == "BPE" && !affixes) return;
  throw base::UserError(
      {.where = (base::fs::path(files.where) / kTokenizerConfig).string() + ", tokenizer_class",
       .expected = "TokenizersBackend, for this tokenizer.json",
       .found = files.class_name + ", and a " + type + " model" + (affixes ? " with marks of subwords" : ""),
       .cause = "transformers takes only the vocabulary of tokenizer.json for this class",
       .fix =
           "set tokenizer_class to \"TokenizersBackend\" in a copy of the folder, if tokenizer.json is right"});
}

// The class that tokenizer_config.json says by itself; none where it would be refused without config.json.
std::optional<std::string> class_without_model(const Json& config, bool byte_level) {
  try {
    return tokenizer_class(config, {}, byte_level, "");
  } catch (const base::UserError&) {  // the model's type decides
    return std::nullopt;
  }
}

}  // namespace

void throw_unreadable(const TokenizerFiles& files, const std::string& found) {
  constexpr std::size_t kMaxQuoted = 500;  // bytes: errors of parsers quote the file
  throw base::UserError({.where = (base::fs::path(files.where) / kTokenizerJson).string(),
                         .expected = "a tokenizer in the format of Hugging Face's tokenizers 0.23",
                         .found = base::cut_text(found, kMaxQuoted),
                         .cause = "an interrupted download, or a Git LFS pointer file",
                         .fix = "download the file again and compare its size"});
}

void read_tokenizer_config(TokenizerFiles& files) {
  const std::string where = (base::fs::path(files.where) / kTokenizerConfig).string();
  files.special = {};
  files.notes.clear();
  Json config = parse_object(files, kTokenizerConfig);
  if (config.is_null()) config = Json::object();
  const Json map = parse_object(files, kSpecialTokensMap);
  const Json outline = outline_of(files);
  check_refused_keys(config, where);
  check_mistral_pattern(files, config);
  const auto json = files.files.find(kTokenizerJson);
  const bool byte_level =
      json != files.files.end() && json->second.find("\"ByteLevel\"") != std::string::npos;
  files.class_name = tokenizer_class(config, files.model, byte_level, where);
  set_tokens(files, find_tokens({.where = files.where,
                                 .config = config,
                                 .special_map = map,
                                 .added = parse_object(files, kAddedTokens),
                                 .outline = outline,
                                 .class_name = files.class_name}));
  check_model(files, outline);
  files.form["split_special_tokens"] = config_flag(config, "split_special_tokens").value_or(false);
  files.special.eot = text_member(config, "eot_token");
  files.templates = read_templates(files, config);
  files.has_lengths = !tokenizer_json_keys().at(outline, "padding").is_null() ||
                      (outline.contains("truncation") && !outline["truncation"].is_null());
  files.cleans_spaces = cleans_spaces(config, outline);
  files.says_bos = config_flag(config, "add_bos_token");
  files.says_eos = config_flag(config, "add_eos_token");
  note_unknown_keys(files, config, map, outline);
}

std::map<std::string, std::string> files_to_save(const TokenizerFiles& files, const std::string& as_it_is) {
  std::map<std::string, std::string> out = files.files;
  if (files.has_lengths) out[kTokenizerJson] = as_it_is;
  Json config = parse_object(files, kTokenizerConfig);
  if (config.is_null()) config = Json::object();
  const Json before = config;
  // A folder with the tokenizer and no config.json, as an adapter's, is read by the same class.
  const bool byte_level = files.files.at(kTokenizerJson).find("\"ByteLevel\"") != std::string::npos;
  if (class_without_model(config, byte_level) != files.class_name) {
    config["tokenizer_class"] = files.class_name;
    config.erase("auto_map");
  }
  if (files.has_lengths && files.pad_of_padding) config["pad_token"] = files.special.pad.value_or("");
  // Result folders hold files only: the templates of the folder stand in the config, where transformers reads
  // them too.
  if (std::erase_if(out, [](const auto& file) { return file.first.starts_with(kMoreTemplates); }) > 0) {
    out.erase(kChatTemplate);
    config["chat_template"] = Json::array();
    for (const auto& [name, source] : files.templates.named)
      config["chat_template"].push_back({{"name", name}, {"template", source}});
  }
  if (config != before) out[kTokenizerConfig] = base::dump_json(config, 2) + "\n";
  return out;
}

bool is_tokenizer_file(std::string_view name) {
  return std::ranges::find(kKeptFiles, name) != kKeptFiles.end();
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
  if (const base::fs::path more = folder / kMoreTemplates; base::fs::is_directory(more)) {
    for (const std::string& name : names_in(more)) {
      if (!name.ends_with(".jinja")) continue;
      out.files[std::string(kMoreTemplates) + "/" + name] = base::read_text(more / name);
    }
  }
  out.model = identity_in(folder);
  read_tokenizer_config(out);
  return out;
}

}  // namespace hone::text
