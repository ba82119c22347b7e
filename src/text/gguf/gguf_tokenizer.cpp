#include "text/gguf/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/numeric.h"
#include "text/gguf/gguf_parts.h"
#include "text/gguf/gguf_pieces.h"
#include "text/tokenizer_impl.h"

namespace hone::text {
namespace {

using base::Json;

// Reads one GGUF and writes the three JSON files; the members are what they share.
class Converter {
 public:
  explicit Converter(const base::GgufFile& file) : file_(file) {
    const std::string model = file_.require_string("tokenizer.ggml.model");
    gemma4_ = model == "gemma4";
    if (model == "gpt2") {
      pre_ = find_pre();
    } else if (model == "llama" || gemma4_) {
      form_ = gemma4_ ? PieceForm::kAsItIs : find_form();
    } else {
      fail("tokenizer.ggml.model", "\"gpt2\" (byte-level BPE), \"llama\" or \"gemma4\" (SentencePiece)",
           "\"" + model + "\"", "a Unigram or WordPiece tokenizer, which a GGUF describes only in part",
           "use the model's folder from Hugging Face, with its tokenizer.json");
    }
    const auto* tokens = file_.strings("tokenizer.ggml.tokens");
    if (tokens == nullptr || tokens->empty())
      fail("tokenizer.ggml.tokens", "a list of tokens", "none", kCut, kAgain);
    tokens_ = *tokens;
    types_ = file_.ints("tokenizer.ggml.token_type");
    if (types_ != nullptr && types_->size() != tokens_.size()) {
      fail("tokenizer.ggml.token_type", fmt::format("{} types, one a token", tokens_.size()),
           fmt::format("{}", types_->size()), kCut, kAgain);
    }
    if (form_ == PieceForm::kAsItIs) read_runs();
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
    // gguf-py writes other templates of a model under their names.
    if (const auto* names = file_.strings("tokenizer.chat_templates"); names != nullptr) {
      for (const std::string& name : *names) {
        const std::string key = "tokenizer.chat_template." + name;
        const bool plain = name.find_first_of("/.") == std::string::npos;  // it becomes a file's name
        if (plain && !name.empty() && file_.has(key))
          out.files[std::string(kMoreTemplates) + "/" + name + ".jinja"] = file_.require_string(key);
      }
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

  PieceForm find_form() const {
    constexpr const char* kKey = "tokenizer.ggml.add_space_prefix";
    const std::optional<bool> prefix =
        file_.has(kKey) ? std::optional(file_.bool_or(kKey, true)) : std::nullopt;
    const std::string scheme = file_.has(kPrependScheme) ? file_.require_string(kPrependScheme) : "";
    return piece_form(file_.require_string("general.architecture"), prefix, scheme);
  }

  // Runs of spaces as pieces (text/gguf/gguf_pieces.h).
  void read_runs() {
    runs_.resize(tokens_.size());
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      if (type_of(id) != TokenType::kUserDefined) continue;
      if (auto piece = run_of_spaces(tokens_[id])) {
        tokens_[id] = *std::move(piece);
        runs_[id] = true;
      }
    }
  }

  TokenType type_of(std::size_t id) const {
    return types_ == nullptr ? TokenType::kNormal : static_cast<TokenType>((*types_)[id]);
  }

  // "bos", "eos", "unknown", "padding" or "eot": the id that the file gives. Model "llama" has llama.cpp's
  // defaults: Llama's own first three tokens.
  std::optional<std::size_t> special_id(std::string_view name) const {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
    if (!file_.has(key)) {
      constexpr std::array<std::string_view, 3> kFirst = {"unknown", "bos", "eos"};
      const auto id =
          static_cast<std::size_t>(std::find(kFirst.begin(), kFirst.end(), name) - kFirst.begin());
      const bool known = form_ && !gemma4_ && id < kFirst.size() && id < tokens_.size();
      return known ? std::optional(id) : std::nullopt;
    }
    const std::int64_t id = file_.require_int(key);
    if (id < 0 || std::cmp_greater_equal(id, tokens_.size())) {
      fail(key, fmt::format("an id from 0 to {}", tokens_.size() - 1), fmt::format("{}", id), kCut, kAgain);
    }
    return static_cast<std::size_t>(id);
  }

  Json special_tokens() const {
    Json out = Json::object();
    for (const auto& [name, key] :
         {std::pair("bos_token", "bos"), std::pair("eos_token", "eos"), std::pair("unk_token", "unknown"),
          std::pair("pad_token", "padding"), std::pair("eot_token", "eot")}) {
      if (const auto id = special_id(key)) out[name] = tokens_[*id];
    }
    return out;
  }

  // Converters fill the rows between the vocabulary and the padded embedding with "[PAD151936]", unused or
  // (Phi-3's) unknown; the original tokenizer does not have them.
  bool only_fills(std::size_t id) const {
    const TokenType type = type_of(id);
    return (type == TokenType::kUnused || type == TokenType::kUnknown) && tokens_[id].starts_with("[PAD");
  }

  // Token -> id.
  Json vocabulary() const {
    std::size_t size = tokens_.size();
    while (size > 0 && only_fills(size - 1)) --size;
    Json::object_t vocabulary;  // filled at the back: operator[] of an ordered object searches from the front
    vocabulary.reserve(size);
    for (std::size_t id = 0; id < size; ++id) vocabulary.push_back({tokens_[id], id});
    return Json(std::move(vocabulary));
  }

  Json merges() const {
    const auto* lines = file_.strings("tokenizer.ggml.merges");
    if (lines == nullptr && form_ && !gemma4_) return merges_of_scores();
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

  // One a token, of which the higher one merges first.
  std::vector<double> scores() const {
    constexpr const char* kKey = "tokenizer.ggml.scores";
    std::vector<double> out(tokens_.size());
    if (merges_by_position(file_.require_string("general.architecture"))) {
      for (std::size_t id = 0; id < out.size(); ++id) out[id] = -static_cast<double>(id);
      return out;
    }
    const auto found = file_.metadata().find(kKey);
    const auto* read =
        found == file_.metadata().end() ? nullptr : std::get_if<std::vector<double>>(&found->second);
    if (read == nullptr || read->size() != out.size()) {
      fail(kKey, fmt::format("{} scores, one a token", out.size()),
           read == nullptr ? "none" : fmt::format("{}", read->size()), kCut, kAgain);
    }
    return *read;
  }

  Json merges_of_scores() const {
    std::vector<double> scored = scores();
    std::vector<bool> normal(tokens_.size());
    bool same = true;  // whether no score orders anything
    std::optional<double> first;
    double highest = 0;
    for (std::size_t id = 0; id < normal.size(); ++id) {
      normal[id] = type_of(id) == TokenType::kNormal;
      if (!normal[id]) continue;
      if (!first) first = highest = scored[id];
      same = same && scored[id] == *first;
      highest = std::max(highest, scored[id]);
    }
    for (std::size_t id = 0; id < runs_.size(); ++id) {
      if (!runs_[id]) continue;
      normal[id] = true;
      scored[id] = highest + 1;
    }
    Json out = Json::array();
    for (Merge& merge : merges_of_pieces(tokens_, scored, normal, file_.path().string()))
      out.push_back(Json::array({std::move(merge.first), std::move(merge.second)}));
    if (same && out.size() > 1) {
      fail("tokenizer.ggml.scores", "scores that say what merges first", "one score for all tokens",
           "a converter that did not have SentencePiece's own file (tokenizer.model)",
           "use the model's folder from Hugging Face, with its tokenizer.json");
    }
    return out;
  }

  // Tokens that are found in the text before anything else; control tokens are special: decoding can skip
  // them.
  Json added_tokens() const {
    Json out = Json::array();
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      const TokenType type = type_of(id);
      const bool special = type == TokenType::kControl || (form_ && type == TokenType::kUnknown);
      if (only_fills(id) || (!special && type != TokenType::kUserDefined)) continue;
      out.push_back({{"id", id},
                     {"content", tokens_[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", takes_spaces(id)},
                     {"normalized", false},
                     {"special", special}});
    }
    return out;
  }

  // Phi-3's tokens take the spaces behind them, "\n" of its template too. A GGUF does not say so; llama.cpp
  // takes it from the model's name.
  bool takes_spaces(std::size_t id) const {
    if (!form_ || file_.require_string("general.architecture") != "phi3") return false;
    const std::string& token = tokens_[id];
    return token != "<unk>" && token != "<s>" && token != "<|endoftext|>";
  }

  // BOS before and EOS behind the text, where the file asks for them; null otherwise.
  Json post_processor() const {
    const auto bos = special_id("bos"), eos = special_id("eos");
    // Gemma 4's template writes BOS itself; its converter says true for llama.cpp's sake.
    const bool by_template = gemma4_ && file_.require_string("general.architecture") == "gemma4";
    const bool add_bos =
        bos && !by_template && file_.bool_or("tokenizer.ggml.add_bos_token", form_ ? true : pre_.adds_bos);
    const bool add_eos = eos && file_.bool_or("tokenizer.ggml.add_eos_token", false);
    if (!add_bos && !add_eos) return nullptr;
    Json single = Json::array();
    Json pair = Json::array();
    Json special = Json::object();
    const auto add_special = [&](Json& sequence, std::size_t id, int type_id) {
      const std::string& token = tokens_[id];
      sequence.push_back({{"SpecialToken", {{"id", token}, {"type_id", type_id}}}});
      special[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
    };
    for (const auto& [name, type_id] : {std::pair("A", 0), std::pair("B", 1)}) {
      if (add_bos) add_special(pair, *bos, type_id);
      pair.push_back({{"Sequence", {{"id", name}, {"type_id", type_id}}}});
      if (add_eos) add_special(pair, *eos, type_id);
      if (type_id == 0) single = pair;
    }
    return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
  }

  // What stands around the model: normalizer, pre-tokenizer and decoder.
  PieceParts parts() const {
    if (form_) return piece_parts(*form_);
    Json steps = pre_.steps;
    steps.push_back(byte_level(pre_.gpt2_pattern));
    PieceParts out;
    if (pre_.nfc) out.normalizer = {{"type", "NFC"}};
    out.pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
    out.decoder = byte_level(true);
    return out;
  }

  Json tokenizer_json() const {
    PieceParts around = parts();
    const auto unknown = special_id("unknown");
    return {{"version", "1.0"},
            {"truncation", nullptr},
            {"padding", nullptr},
            {"added_tokens", added_tokens()},
            {"normalizer", std::move(around.normalizer)},
            {"pre_tokenizer", std::move(around.pre_tokenizer)},
            {"post_processor", post_processor()},
            {"decoder", std::move(around.decoder)},
            {"model",
             {{"type", "BPE"},
              {"dropout", nullptr},
              {"unk_token", form_ && unknown ? Json(tokens_[*unknown]) : Json()},
              {"continuing_subword_prefix", nullptr},
              {"end_of_word_suffix", nullptr},
              {"fuse_unk", form_.has_value()},
              {"byte_fallback", form_.has_value()},
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
  PreTokenizer pre_;               // of byte-level BPE
  std::optional<PieceForm> form_;  // of SentencePiece
  bool gemma4_ = false;            // of these: with merges
  std::vector<std::string> tokens_;
  std::vector<bool> runs_;  // which of them are runs of spaces; empty: none
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
