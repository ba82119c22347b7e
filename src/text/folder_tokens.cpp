#include "text/folder_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/error.h"
#include "base/strings/utf8.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_keys.h"

namespace hone::text {
namespace {

using base::Json;

constexpr const char* kType = "__type";

// An AddedToken that Python has made: its "__type" is one that no file can have. Before that,
// tokenizer_config.json's are dicts with the text "AddedToken" there.
bool is_made(const Json& value) {
  if (!value.is_object()) return false;
  const auto type = value.find(kType);
  return type != value.end() && type->is_binary();
}
bool is_token(const Json& value) {
  return value.is_string() || is_made(value);
}
// str(value) of a token.
std::string token_text(const Json& token) {
  return token.is_string() ? token.get<std::string>() : token.at("content").get<std::string>();
}
bool is_true(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.is_number() ? !value.empty() : value != 0;
}
// object.get(key)
const Json& member_or_null(const Json& object, const std::string& key) {
  static const Json kNone;
  if (!object.is_object()) return kNone;
  const auto it = object.find(key);
  return it == object.end() ? kNone : *it;
}

class TokenFinder {
 public:
  explicit TokenFinder(const TokenSources& sources) : sources_(sources), settings_(sources.config) {}

  FoundTokens find() {
    for (const char* name : {"tokenizer_class", "init_inputs", "add_bos_token", "add_eos_token"})
      settings_.erase(name);
    gather_model_tokens();
    if (settings_.contains("added_tokens_decoder")) {
      read_decoder(settings_["added_tokens_decoder"]);
    } else {
      read_special_map();
      read_added_file();
      read_added_of_json();
    }
    convert(settings_);
    for (auto& [key, value] : settings_.items()) {
      if (!is_named_token(key) || !is_token(value)) continue;
      if (const auto it = by_text_.find(token_text(value)); it != by_text_.end()) value = it->second;
    }
    set_defaults();
    take_special();
    list_additions();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& file, const std::string& key, std::string expected,
                         const Json& found) const {
    throw base::UserError({.where = (base::fs::path(sources_.where) / file).string() + ", " + key,
                           .expected = std::move(expected),
                           .found = base::cut_text(base::dump_json(found), 200),
                           .cause = "transformers refuses it as well",
                           .fix = "download the file from the model's repository again"});
  }

  // AddedToken(**value); `special`: in place of the value's.
  Json made(const Json& value, std::optional<bool> special, const std::string& file,
            const std::string& key) const {
    if (!member_or_null(value, "content").is_string())
      fail(file, key, "an added token with its text in content", value);
    Json out = {{kType, Json::binary({})}, {"content", value.at("content")}};
    for (const char* flag : {"single_word", "lstrip", "rstrip", "special", "normalized"}) {
      const auto it = value.find(flag);
      if (it != value.end() && !it->is_boolean()) fail(file, key + ", " + flag, "true or false", *it);
      // Python decides about "normalized" when the token is added: special tokens are not.
      const Json unset = std::string_view(flag) == "normalized" ? Json() : Json(false);
      out[flag] = it == value.end() ? unset : *it;
      if (special && std::string_view(flag) == "special") out[flag] = *special;
    }
    return out;
  }
  // AddedToken(text, special=True)
  static Json special_token(const std::string& text) {
    return {{kType, Json::binary({})}, {"content", text}, {"single_word", false}, {"lstrip", false},
            {"rstrip", false},         {"special", true}, {"normalized", false}};
  }

  // Keys of the config that name a token of the model's own, and a dict of extra tokens.
  void gather_model_tokens() {
    rename_additional(/*unless_set=*/false);
    Json own = Json::object();
    for (const auto& [key, value] : settings_.items()) {
      if (!is_named_token(key) && key.ends_with("_token") && value.is_string()) own[key] = value;
    }
    for (const auto& [key, value] : own.items()) settings_.erase(key);
    if (member_or_null(settings_, "extra_special_tokens").is_object()) {
      own.update(settings_["extra_special_tokens"]);
      settings_.erase("extra_special_tokens");
    }
    if (!own.empty()) settings_["model_specific_special_tokens"] = own;
  }

  void rename_additional(bool unless_set) {
    const auto additional = settings_.find("additional_special_tokens");
    if (additional == settings_.end()) return;
    if (unless_set ? settings_.contains("extra_special_tokens")
                   : is_true(member_or_null(settings_, "extra_special_tokens"))) {
      return;
    }
    Json moved = *additional;
    settings_.erase(additional);
    settings_["extra_special_tokens"] = std::move(moved);
  }

  void read_decoder(const Json& decoder) {
    if (!decoder.is_object())
      fail(kTokenizerConfig, "added_tokens_decoder", "an object of added tokens by id", decoder);
    for (const auto& [id, token] : decoder.items()) {
      const std::string key = "added_tokens_decoder, " + base::cut_text(id, 40);
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), number);
      if (error != std::errc() || end != id.data() + id.size())
        fail(kTokenizerConfig, key, "ids as keys", token);
      if (!token.is_object()) fail(kTokenizerConfig, key, "an added token", token);
      keep(number, made(token, std::nullopt, kTokenizerConfig, key));
    }
  }

  void keep(std::int64_t id, Json token) {
    by_text_[token_text(token)] = token;
    decoder_[id] = std::move(token);
  }

  // Only where the config has no added_tokens_decoder: the map's values replace the config's.
  void read_special_map() {
    if (!sources_.special_map.is_object()) return;
    for (const auto& [key, value] : sources_.special_map.items()) {
      if (value.is_object() && key != "extra_special_tokens") {
        settings_[key] = made(value, true, kSpecialTokensMap, key);
      } else if (key == "extra_special_tokens" && value.is_array()) {
        Json all = member_or_null(settings_, key).is_array() ? settings_[key] : Json::array();
        for (const Json& each : value) {
          if (each.is_object() && each.contains("special"))
            fail(kSpecialTokensMap, key, "added tokens without special, which they all are", each);
          Json token = each.is_object() ? made(each, true, kSpecialTokensMap, key) : each;
          if (std::find(all.begin(), all.end(), token) == all.end()) all.push_back(std::move(token));
        }
        settings_[key] = std::move(all);
      } else {
        settings_[key] = value;
      }
    }
    if (!member_or_null(settings_, "extra_special_tokens").is_object()) return;
    Json own = member_or_null(settings_, "model_specific_special_tokens");
    if (!own.is_object()) own = Json::object();
    own.update(settings_["extra_special_tokens"]);
    settings_.erase("extra_special_tokens");
    settings_["model_specific_special_tokens"] = std::move(own);
  }

  void read_added_file() {
    if (!sources_.added.is_object()) return;
    std::set<std::string> special;
    for (const auto& [key, value] : settings_.items()) {
      if (is_named_token(key) && is_token(value)) special.insert(token_text(value));
    }
    for (const Json& token : member_or_null(settings_, "extra_special_tokens")) {
      if (is_token(token)) special.insert(token_text(token));
    }
    for (const auto& [text, id] : sources_.added.items()) {
      if (!id.is_number_integer()) fail("added_tokens.json", base::cut_text(text, 60), "an id", id);
      Json token = special_token(text);
      if (!special.contains(text)) {
        token["special"] = false;
        token["normalized"] = true;
      }
      keep(id.get<std::int64_t>(), std::move(token));
    }
  }

  // Those that are whole: the tokenizers library refuses a file with others.
  std::vector<Json> added_of_json() const {
    std::vector<Json> out;
    for (const Json& token : member_or_null(sources_.outline, "added_tokens")) {
      if (member_or_null(token, "content").is_string() && member_or_null(token, "id").is_number_integer())
        out.push_back(token);
    }
    return out;
  }

  void read_added_of_json() {
    for (const Json& token : added_of_json())
      keep(token.at("id").get<std::int64_t>(), made(token, std::nullopt, kTokenizerJson, "added_tokens"));
  }

  // convert_added_tokens: dicts with "__type" become tokens, at any depth.
  void convert(Json& value) const {
    if (value.is_object() && member_or_null(value, kType) == Json("AddedToken")) {
      value = made(value, std::nullopt, kTokenizerConfig, "an AddedToken");
    } else if (value.is_structured() && !is_made(value)) {
      for (Json& each : value) convert(each);
    }
  }

  // The arguments that the class's own constructor has, and the pad token of a stored padding.
  void set_defaults() {
    const ClassForm form = form_of_class(sources_.class_name, settings_);
    for (const auto& [key, value] : form.defaults) {
      if (!settings_.contains(key)) settings_[key] = value;
    }
    if (!form.own.empty()) set_own(form);
    const Json& padding = member_or_null(sources_.outline, "padding");
    if (padding.is_object() && member_or_null(padding, "pad_token").is_string() &&
        !settings_.contains("pad_token")) {
      settings_["pad_token"] = padding["pad_token"];
      out_.pad_of_padding = true;
    }
    // Gemma's unknown token is part of its pipeline.
    Json named = settings_;
    if (const Json& unknown = member_or_null(named, "unk_token"); is_made(unknown))
      named["unk_token"] = token_text(unknown);
    out_.pipeline = form_of_class(sources_.class_name, named).pipeline;
  }

  void set_own(const ClassForm& form) {
    Json additional = member_or_null(settings_, "additional_special_tokens");
    if (!additional.is_array()) additional = Json::array();
    for (const auto& [key, value] : form.own) {
      if (!settings_.contains(key)) settings_[key] = value;
      if (!settings_[key].is_null()) additional.push_back(settings_[key]);
    }
    settings_["additional_special_tokens"] = std::move(additional);
  }

  void set_special(const std::string& key, const Json& value) {
    if (!is_token(value)) fail(kTokenizerConfig, key, "a token: a text, or an AddedToken object", value);
    const auto it =
        std::find_if(special_.begin(), special_.end(), [&](const auto& each) { return each.first == key; });
    if (it != special_.end()) {
      it->second = value;
    } else {
      special_.emplace_back(key, value);
    }
  }

  // PreTrainedTokenizerBase.__init__
  void take_special() {
    rename_additional(/*unless_set=*/true);
    for (const char* key :
         {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
      special_.emplace_back(key, nullptr);
    Json own = Json::object();
    for (const auto& [key, value] : settings_.items()) {
      if (is_named_token(key)) {
        if (!value.is_null()) set_special(key, value);
      } else if (key == "extra_special_tokens" && value.is_object()) {
        for (const auto& [name, token] : value.items()) set_special(name, token);
      } else if (key == "extra_special_tokens" && value.is_array()) {
        for (const Json& token : value) {
          if (!is_token(token)) fail(kTokenizerConfig, key, "texts, or AddedToken objects", token);
          extra_.push_back(token);
        }
      } else if (key == "extra_special_tokens" && !value.is_null()) {
        fail(kTokenizerConfig, key, "a list of tokens, or an object of named ones", value);
      } else if (key.ends_with("_token") && is_token(value)) {
        own[key] = value;
      }
    }
    const Json& explicitly = member_or_null(settings_, "model_specific_special_tokens");
    if (explicitly.is_object()) own.update(explicitly);
    for (const auto& [key, value] : own.items()) set_special(key, value);
    for (const auto& [key, value] : special_) {
      // CodeLlamaTokenizer names its own fill_token after the config's has been added.
      const bool own_fill = sources_.class_name == "CodeLlamaTokenizer" && key == "fill_token";
      const Json& named = own_fill ? settings_["fill_token"] : value;
      if (!named.is_null()) out_.named.emplace_back(key, token_text(named));
    }
  }

  // TokenizersBackend.__init__, then what the class's own constructor adds.
  void list_additions() {
    std::set<std::string> known, named;
    if (out_.pipeline.is_null()) {
      for (const Json& token : added_of_json()) known.insert(token_text(token));
    }
    Json tokens = Json::array();
    for (const auto& [id, token] : decoder_) {
      tokens.push_back(token);
      known.insert(token_text(token));
    }
    const auto add = [&](const Json& token) {
      if (known.contains(token_text(token)) || std::find(tokens.begin(), tokens.end(), token) != tokens.end())
        return;
      tokens.push_back(token);
    };
    for (const auto& [key, value] : special_) {
      if (value.is_null()) continue;
      add(value);
      named.insert(token_text(value));
    }
    for (const Json& token : extra_) add(token);
    for (Json& token : tokens) {
      if (token.is_string()) token = special_token(token.get<std::string>());
      if (named.contains(token_text(token))) token["special"] = true;
    }
    out_.add = Json::array({std::move(tokens)});
    if (sources_.class_name == "Qwen2Tokenizer" || sources_.class_name == "CohereTokenizer") add_again();
    for (Json& list : out_.add) {
      for (Json& token : list) settle(token);
    }
    find_changes();
  }

  static void settle(Json& token) {
    token.erase(kType);
    if (token["normalized"].is_null()) token["normalized"] = !token["special"].get<bool>();
  }

  // Qwen2Tokenizer adds all special tokens without their flags, CohereTokenizer with them.
  void add_again() {
    const bool bare = sources_.class_name == "Qwen2Tokenizer";
    Json tokens = Json::array();
    const auto add = [&](const Json& token) {
      tokens.push_back(bare || token.is_string() ? special_token(token_text(token)) : token);
      tokens.back()["special"] = true;
    };
    for (const auto& [key, value] : special_) {
      if (!value.is_null()) add(value);
    }
    for (const Json& token : extra_) add(token);
    out_.add.push_back(std::move(tokens));
  }

  void find_changes() {
    std::map<std::string, Json> before;
    for (const Json& token : added_of_json()) {
      Json flags = made(token, std::nullopt, kTokenizerJson, "added_tokens");
      settle(flags);
      before[token_text(token)] = std::move(flags);
    }
    for (const Json& list : out_.add) {
      for (const Json& token : list) {
        const auto it = before.find(token_text(token));
        if (!token_text(token).empty() && (it == before.end() || !same_flags(it->second, token)))
          out_.changes = true;
      }
    }
  }

  static bool same_flags(const Json& a, const Json& b) {
    for (const char* flag : {"single_word", "lstrip", "rstrip", "special", "normalized"}) {
      if (a.at(flag) != b.at(flag)) return false;
    }
    return true;
  }

  const TokenSources& sources_;
  Json settings_;                         // the arguments of Python's constructor
  std::map<std::int64_t, Json> decoder_;  // added tokens by their ids
  std::map<std::string, Json> by_text_;
  std::vector<std::pair<std::string, Json>> special_;  // null: not set
  std::vector<Json> extra_;
  FoundTokens out_;
};

}  // namespace

FoundTokens find_tokens(const TokenSources& sources) {
  return TokenFinder(sources).find();
}

}  // namespace hone::text
