#include "text/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/numeric.h"
#include "text/gguf_parts.h"
#include "text/tokenizer_impl.h"

namespace hone::text {
namespace {

using base::Json;

// Reads one GGUF and writes the three JSON files; the members are what they share.
class Converter {
 public:
  explicit Converter(const base::GgufFile& file) : file_(file), pre_(find_pre()) {
    const std::string model = file_.require_string("tokenizer.ggml.model");
    if (model != "gpt2") {
      fail("tokenizer.ggml.model", "\"gpt2\" (byte-level BPE)", "\"" + model + "\"",
           "a SentencePiece or WordPiece tokenizer, which a GGUF describes only in part",
           "use the model's folder from Hugging Face, with its tokenizer.json");
    }
    const auto* tokens = file_.strings("tokenizer.ggml.tokens");
    if (tokens == nullptr || tokens->empty())
      fail("tokenizer.ggml.tokens", "a list of tokens", "none", kCut, kAgain);
    tokens_ = tokens;
    types_ = file_.ints("tokenizer.ggml.token_type");
    if (types_ != nullptr && types_->size() != tokens_->size()) {
      fail("tokenizer.ggml.token_type", fmt::format("{} types, one a token", tokens_->size()),
           fmt::format("{}", types_->size()), kCut, kAgain);
    }
  }

  TokenizerFiles convert() {
    TokenizerFiles out;
    out.where = file_.path().string();
    const Json special = special_tokens();
    out.files[kTokenizerJson] = base::dump_json(tokenizer_json());
    out.files[kTokenizerConfig] = base::dump_json(config_json(special), 2) + "\n";
    out.files[kSpecialTokensMap] = base::dump_json(special, 2) + "\n";
    if (file_.has("tokenizer.chat_template")) {
      out.files[kChatTemplate] = file_.require_string("tokenizer.chat_template");
    }
    return out;
  }

 private:
  static constexpr const char* kCut = "the file was truncated, or its converter was interrupted";
  static constexpr const char* kAgain = "download or convert the file again";

  [[noreturn]] void fail(const std::string& key, std::string expected, std::string found, std::string cause,
                         std::string fix) const {
    throw base::UserError({.where = file_.path().string() + ", " + key,
                           .expected = std::move(expected),
                           .found = std::move(found),
                           .cause = std::move(cause),
                           .fix = std::move(fix)});
  }

  PreTokenizer find_pre() const {
    constexpr const char* kKey = "tokenizer.ggml.pre";
    const std::string name = file_.has(kKey) ? file_.require_string(kKey) : "default";
    std::string known;
    for (PreTokenizer& pre : known_pre_tokenizers()) {
      if (pre.name == name) return std::move(pre);
      known += (known.empty() ? "" : ", ") + std::string(pre.name);
    }
    fail(kKey, "one of " + known, "\"" + name + "\"", "a model family that hone does not read from GGUF",
         "use the model's folder from Hugging Face, with its tokenizer.json");
  }

  TokenType type_of(std::size_t id) const {
    return types_ == nullptr ? TokenType::kNormal : static_cast<TokenType>((*types_)[id]);
  }

  // The text of the token that a key names by its id.
  std::optional<std::string> token_at(const std::string& key) const {
    if (!file_.has(key)) return std::nullopt;
    const std::int64_t id = file_.require_int(key);
    if (id < 0 || std::cmp_greater_equal(id, tokens_->size())) {
      fail(key, fmt::format("an id from 0 to {}", tokens_->size() - 1), fmt::format("{}", id), kCut, kAgain);
    }
    return (*tokens_)[static_cast<std::size_t>(id)];
  }

  Json special_tokens() const {
    Json out = Json::object();
    for (const auto& [name, key] : {std::pair("bos_token", "bos"), std::pair("eos_token", "eos"),
                                    std::pair("unk_token", "unknown"), std::pair("pad_token", "padding")}) {
      if (auto token = token_at(fmt::format("tokenizer.ggml.{}_token_id", key))) out[name] = *token;
    }
    return out;
  }

  // Token -> id. Converters fill the rows between the vocabulary and the padded embedding with
  // unused "[PAD151936]"; the original tokenizer does not have them.
  Json vocabulary() const {
    std::size_t size = tokens_->size();
    while (size > 0 && type_of(size - 1) == TokenType::kUnused && (*tokens_)[size - 1].starts_with("[PAD"))
      --size;
    Json::object_t vocabulary;  // filled at the back: operator[] of an ordered object searches from the front
    vocabulary.reserve(size);
    for (std::size_t id = 0; id < size; ++id) vocabulary.push_back({(*tokens_)[id], id});
    return Json(std::move(vocabulary));
  }

  Json merges() const {
    const auto* lines = file_.strings("tokenizer.ggml.merges");
    if (lines == nullptr) fail("tokenizer.ggml.merges", "a list of merges", "none", kCut, kAgain);
    Json out = Json::array();
    for (std::size_t i = 0; i < lines->size(); ++i) {
      const std::string& line = (*lines)[i];
      const std::size_t space = line.find(' ', 1);  // the first token may itself begin with one
      if (space == std::string::npos || space + 1 == line.size()) {
        fail(fmt::format("tokenizer.ggml.merges[{}]", i), "two tokens with a space between",
             "\"" + line + "\"", kCut, kAgain);
      }
      out.push_back(Json::array({line.substr(0, space), line.substr(space + 1)}));
    }
    return out;
  }

  // Tokens that are found in the text before anything else; control tokens are special: decoding can skip
  // them.
  Json added_tokens() const {
    Json out = Json::array();
    for (std::size_t id = 0; id < tokens_->size(); ++id) {
      const TokenType type = type_of(id);
      if (type != TokenType::kControl && type != TokenType::kUserDefined) continue;
      out.push_back({{"id", id},
                     {"content", (*tokens_)[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", type == TokenType::kControl}});
    }
    return out;
  }

  // BOS before and EOS behind the text, where the file asks for them; null otherwise.
  Json post_processor() const {
    const auto bos = token_at("tokenizer.ggml.bos_token_id");
    const auto eos = token_at("tokenizer.ggml.eos_token_id");
    const bool add_bos = bos && file_.bool_or("tokenizer.ggml.add_bos_token", pre_.adds_bos);
    const bool add_eos = eos && file_.bool_or("tokenizer.ggml.add_eos_token", false);
    if (!add_bos && !add_eos) return nullptr;
    Json single = Json::array();
    Json pair = Json::array();
    Json special = Json::object();
    const auto add_special = [&](Json& sequence, const std::string& token, const char* key, int type_id) {
      sequence.push_back({{"SpecialToken", {{"id", token}, {"type_id", type_id}}}});
      special[token] = {{"id", token}, {"ids", {file_.require_int(key)}}, {"tokens", {token}}};
    };
    for (const auto& [name, type_id] : {std::pair("A", 0), std::pair("B", 1)}) {
      if (add_bos) add_special(pair, *bos, "tokenizer.ggml.bos_token_id", type_id);
      pair.push_back({{"Sequence", {{"id", name}, {"type_id", type_id}}}});
      if (add_eos) add_special(pair, *eos, "tokenizer.ggml.eos_token_id", type_id);
      if (type_id == 0) single = pair;
    }
    return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
  }

  Json tokenizer_json() const {
    Json steps = pre_.steps;
    steps.push_back(byte_level(pre_.gpt2_pattern));
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", added_tokens()},
            {"normalizer", pre_.nfc ? Json{{"type", "NFC"}} : Json()},
            {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}},
            {"post_processor", post_processor()},
            {"decoder", byte_level(true)},
            {"model",
             {{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", nullptr},
              {"continuing_subword_prefix", nullptr},
              {"end_of_word_suffix", nullptr},
              {"fuse_unk", false},
              {"byte_fallback", false},
              {"ignore_merges", pre_.ignore_merges},
              {"vocab", vocabulary()},
              {"merges", merges()}}}};
  }

  // PreTrainedTokenizerFast is the class that takes tokenizer.json as it is; transformers rebuilds
  // the model-specific ones only from the vocabulary.
  Json config_json(const Json& special) const {
    Json out = {{"clean_up_tokenization_spaces", false}, {"tokenizer_class", "PreTrainedTokenizerFast"}};
    const std::string length = file_.require_string("general.architecture") + ".context_length";
    if (file_.has(length)) out["model_max_length"] = file_.require_int(length);
    for (const auto& [name, token] : special.items()) out[name] = token;
    return out;
  }

  const base::GgufFile& file_;
  PreTokenizer pre_;
  const std::vector<std::string>* tokens_ = nullptr;
  const std::vector<std::int64_t>* types_ = nullptr;
};

}  // namespace

TokenizerFiles tokenizer_files_from_gguf(const base::GgufFile& file) {
  TokenizerFiles files = Converter(file).convert();
  read_tokenizer_config(files);
  return files;
}

Tokenizer Tokenizer::from_gguf(const base::GgufFile& file) {
  return Tokenizer(Impl::make(tokenizer_files_from_gguf(file)));
}

}  // namespace hone::text
