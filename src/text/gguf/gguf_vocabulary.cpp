#include "text/gguf/gguf_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "text/gguf/gguf_parts.h"
#include "text/gguf/gguf_pieces.h"
#include "text/turn_end.h"

namespace hone::text {
namespace {

using Doc = nlohmann::json;  // keys sorted: a vocabulary is large, and objects compare whatever their order

const Doc& member(const Doc& object, const char* name) {
  static const Doc none;
  if (!object.is_object()) return none;
  const auto it = object.find(name);
  return it == object.end() ? none : *it;
}

bool flag(const Doc& object, const char* name) {
  return member(object, name) == Doc(true);
}

// Steps of a pre-tokenizer or post-processor: the members of a Sequence, or the thing itself; none when null.
std::vector<Doc> steps_of(const Doc& part, const char* members) {
  if (part.is_null()) return {};
  std::vector<Doc> out;
  if (member(part, "type") != Doc("Sequence")) {
    out.push_back(part);
    return out;
  }
  for (const Doc& step : member(part, members)) out.push_back(step);
  return out;
}

// llama.cpp's converter: tokens that a tokenizer forgot to call special.
bool looks_special(std::string_view token) {
  const auto between = [token](std::string_view first, std::string_view last) {
    return token.size() >= first.size() + last.size() && token.starts_with(first) && token.ends_with(last);
  };
  return token == "<pad>" || token == "<mask>" || token == "<2mass>" || token == "[@BOS@]" ||
         between("<|", "|>") || between("<\uFF5C", "\uFF5C>") || between("<unused", ">");
}

// What gguf-py keeps of a template's name.
bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

constexpr const char* kConvert =
    "convert the merged folder (hone merge) with llama.cpp's convert_hf_to_gguf.py";

class Vocabulary {
 public:
  Vocabulary(const TokenizerFiles& files, std::int64_t rows, const SpecialIds& fallback)
      : files_(files), fallback_(fallback), size_(static_cast<std::size_t>(rows)) {
    const std::string where = (base::fs::path(files.where) / kTokenizerJson).string();
    json_ = base::parse_json_unique(files.files.at(kTokenizerJson), where);
    if (!json_.is_object()) fail("", "a JSON object", json_.type_name(), "", "");
  }

  std::vector<base::GgufEntry> entries() {
    const Doc& model = member(json_, "model");
    if (member(model, "type") != Doc("BPE")) {
      fail("model", "BPE, byte-level or SentencePiece's", "a Unigram or WordPiece tokenizer",
           "a GGUF describes it by scores that hone does not write", kConvert);
    }
    if (flag(model, "byte_fallback")) {
      add_pieces(model);
    } else {
      const PreTokenizer pre = find_pre(model);
      add("model", std::string("gpt2"));
      add("pre", std::string(pre.name));
      read_tokens(model);
      add("tokens", tokens_);
      add("token_type", types_);
      add("merges", joined(merges_of(model)));
      add_special(pre.adds_bos);
    }
    add_templates();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& part, std::string expected, std::string found, std::string cause,
                         std::string fix) const {
    throw base::UserError({.where = (base::fs::path(files_.where) / kTokenizerJson).string() +
                                    (part.empty() ? "" : ", " + part),
                           .expected = std::move(expected),
                           .found = std::move(found),
                           .cause = std::move(cause),
                           .fix = std::move(fix)});
  }

  void add(const char* key, base::GgufWritten value) {
    out_.push_back({std::string("tokenizer.ggml.") + key, std::move(value)});
  }

  // As gguf-py's add_chat_template.
  void add_templates() {
    std::vector<std::string> names;
    for (const auto& [name, source] : files_.templates.named) {
      if (name == "default" || name.empty()) continue;
      std::string key = name;
      std::replace_if(key.begin(), key.end(), [](char c) { return !is_name_character(c); }, '_');
      out_.push_back({"tokenizer.chat_template." + key, source});
      names.push_back(std::move(key));
    }
    if (!names.empty()) out_.push_back({"tokenizer.chat_templates", std::move(names)});
    if (files_.templates.main) out_.push_back({"tokenizer.chat_template", *files_.templates.main});
  }

  // "Take the matches" of a pattern that matches everything is "split at the matches".
  static Doc isolated(Doc step) {
    if (member(step, "type") == Doc("Split") && member(step, "behavior") == Doc("Removed") &&
        flag(step, "invert")) {
      step["behavior"] = "Isolated";
      step["invert"] = false;
    }
    return step;
  }

  // By what tokenizer.json does, not by what the model is called.
  PreTokenizer find_pre(const Doc& model) const {
    std::vector<Doc> steps = steps_of(member(json_, "pre_tokenizer"), "pretokenizers");
    const Doc last = steps.empty() ? Doc(nullptr) : steps.back();
    const bool bytes = member(last, "type") == Doc("ByteLevel") && !flag(last, "add_prefix_space");
    if (!steps.empty()) steps.pop_back();
    for (Doc& step : steps) step = isolated(step);
    const Doc& normalizer = member(json_, "normalizer");
    const bool nfc = member(normalizer, "type") == Doc("NFC");
    std::string known;
    for (PreTokenizer& pre : known_pre_tokenizers()) {
      const bool same = bytes && flag(last, "use_regex") == pre.gpt2_pattern && Doc(steps) == Doc(pre.steps);
      const bool normal = normalizer.is_null() || (nfc && pre.nfc);
      if (same && normal && flag(model, "ignore_merges") == pre.ignore_merges) return std::move(pre);
      known += (known.empty() ? "" : ", ") + std::string(pre.name);
    }
    fail("pre_tokenizer", "one of llama.cpp's pre-tokenizers that hone has: " + known,
         member(json_, "pre_tokenizer").dump(),
         "llama.cpp splits text by a named pre-tokenizer; another one would give different tokens", kConvert);
  }

  void place(std::int64_t id, const std::string& token, TokenType type) {
    if (id < 0 || std::cmp_greater_equal(id, size_)) {
      fail(token, fmt::format("an id below the {} rows of the embedding", size_), fmt::format("{}", id),
           "tokens were added without resizing the model", "use the tokenizer of this model");
    }
    const auto at = static_cast<std::size_t>(id);
    const bool taken = !has_type(at, TokenType::kUnused);
    if (taken && tokens_[at] != token) {
      fail(token, fmt::format("one token of id {}", id), "also " + tokens_[at], "the file was edited", "");
    }
    tokens_[at] = token;
    types_[at] = static_cast<std::int32_t>(type);
  }

  static TokenType kind_of_added(bool control, bool unknown) {
    if (unknown) return TokenType::kUnknown;
    return control ? TokenType::kControl : TokenType::kUserDefined;
  }

  void read_tokens(const Doc& model) {
    tokens_.resize(size_);
    for (std::size_t i = 0; i < size_; ++i) tokens_[i] = fmt::format("[PAD{}]", i);
    types_.assign(size_, static_cast<std::int32_t>(TokenType::kUnused));
    const bool pieces = flag(model, "byte_fallback");
    const Doc& unknown = member(model, "unk_token");
    for (const auto& [token, id] : member(model, "vocab").items()) {
      const bool byte = pieces && token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
      place(id.get<std::int64_t>(), token, byte ? TokenType::kByte : TokenType::kNormal);
    }
    for (const Doc& added : member(json_, "added_tokens")) {
      const auto token = added.at("content").get<std::string>();
      const auto id = added.at("id").get<std::int64_t>();
      const bool control = flag(added, "special") || looks_special(token);
      place(id, token, kind_of_added(control, pieces && unknown == added.at("content")));
      added_.emplace_back(token, id);
    }
  }

  // Old files write a merge as "a b", new ones as ["a", "b"].
  std::vector<Merge> merges_of(const Doc& model) const {
    std::vector<Merge> out;
    for (const Doc& merge : member(model, "merges")) {
      if (merge.is_array() && merge.size() == 2) {
        out.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
        continue;
      }
      const std::string line = merge.is_string() ? merge.get<std::string>() : std::string();
      const std::size_t space = line.find(' ', 1);
      if (space == std::string::npos) fail("merges", "pairs of tokens", merge.dump(), "", "");
      out.emplace_back(line.substr(0, space), line.substr(space + 1));
    }
    return out;
  }

  static std::vector<std::string> joined(const std::vector<Merge>& merges) {
    std::vector<std::string> out;
    for (const auto& [left, right] : merges) out.push_back(left + " " + right);
    return out;
  }

  // SentencePiece: scores instead of merges, a type for bytes, and whether a space stands before the text.
  // Merges that no scores stand for are llama.cpp's model "gemma4", which takes no space before the text.
  void add_pieces(const Doc& model) {
    const PieceForm form = find_form();
    read_tokens(model);
    std::vector<bool> normal(tokens_.size());
    for (std::size_t id = 0; id < normal.size(); ++id) normal[id] = has_type(id, TokenType::kNormal);
    const std::vector<Merge> merges = merges_of(model);
    auto scores = scores_of_merges(tokens_, merges, normal, files_.where);
    if (!scores && form != PieceForm::kAsItIs) {
      fail("merges", "merges that scores of tokens stand for", "others",
           "llama.cpp merges every two tokens that make up a third one", kConvert);
    }
    add("model", std::string(scores ? "llama" : "gemma4"));
    add("pre", std::string(scores ? "default" : "gemma4"));
    add("tokens", scores ? respelled() : tokens_);
    add("token_type", types_);
    if (scores) {
      add("scores", *std::move(scores));
    } else {
      add("merges", joined(merges));
    }
    add_special(true);
    add("add_space_prefix", form != PieceForm::kAsItIs);
    const std::string scheme = prepend_scheme(form);
    if (!scheme.empty()) out_.push_back({kPrependScheme, scheme});
  }

  bool has_type(std::size_t id, TokenType type) const {
    return types_[id] == static_cast<std::int32_t>(type);
  }

  // llama.cpp finds user-defined tokens in the text as it is.
  std::vector<std::string> respelled() const {
    std::vector<std::string> out = tokens_;
    for (std::size_t id = 0; id < out.size(); ++id) {
      if (has_type(id, TokenType::kUserDefined)) out[id] = with_spaces(out[id]);
    }
    return out;
  }

  PieceForm find_form() const {
    const Doc& before = member(json_, "pre_tokenizer");
    for (const PieceForm form : {PieceForm::kSpaceBefore, PieceForm::kAsItIs}) {
      const PieceParts parts = piece_parts(form);
      if (member(json_, "normalizer") == Doc(parts.normalizer) && before == Doc(parts.pre_tokenizer))
        return form;
    }
    // Gemma has a step that finds no space to split at.
    if (member(json_, "normalizer") == Doc(piece_parts(PieceForm::kAsItIs).normalizer) &&
        member(before, "type") == Doc("Split") && member(before, "pattern") == Doc({{"String", " "}})) {
      return PieceForm::kAsItIs;
    }
    if (member(json_, "normalizer").is_null() && member(before, "type") == Doc("Metaspace") &&
        member(before, "replacement") == Doc("\u2581") && member(before, "split") == Doc(false)) {
      const Doc& scheme = member(before, "prepend_scheme");
      if (scheme == Doc("never")) return PieceForm::kAsItIs;
      for (const PieceForm form : {PieceForm::kSpaceFirst, PieceForm::kSpaceIfMissing})
        if (scheme == Doc(prepend_scheme(form))) return form;
    }
    fail("pre_tokenizer", "one of SentencePiece's: Metaspace, or \" \" replaced by \"\u2581\"", before.dump(),
         "llama.cpp knows no other; another one would give different tokens", kConvert);
  }

  std::optional<std::int64_t> id_of(const std::optional<std::string>& token,
                                    std::optional<std::int64_t> otherwise) const {
    if (token) {
      for (const auto& [text, id] : added_) {
        if (text == *token) return id;
      }
      const auto it = std::find(tokens_.begin(), tokens_.end(), *token);
      if (it != tokens_.end()) return it - tokens_.begin();
    }
    if (otherwise && *otherwise >= 0 && std::cmp_less(*otherwise, size_)) return otherwise;
    return std::nullopt;
  }

  // `default_bos`: what llama.cpp takes for add_bos_token where a file does not say.
  void add_special(bool default_bos) {
    const SpecialTokens& named = files_.special;
    const auto put_id = [this](const char* key, std::optional<std::int64_t> id) {
      if (id) add(key, static_cast<std::uint32_t>(*id));
    };
    const auto bos = id_of(named.bos, fallback_.bos), eos = id_of(named.eos, fallback_.eos);
    put_id("bos_token_id", bos);
    put_id("eos_token_id", eos);
    const auto eot = answer_end();
    if (eot && eot != eos) put_id("eot_token_id", eot);
    put_id("unknown_token_id", id_of(named.unk, std::nullopt));
    put_id("padding_token_id", id_of(named.pad, fallback_.pad));
    const auto [first, last] = ends();
    const auto is = [this](const std::string& token, std::optional<std::int64_t> id) {
      return id && !token.empty() && tokens_[static_cast<std::size_t>(*id)] == token;
    };
    // Always said: for some names llama.cpp's own default is another.
    if (bos || default_bos) add("add_bos_token", is(first, bos));
    if (eos) add("add_eos_token", is(last, eos));
  }

  // The token that ends an answer: the tokenizer's own word, else the longest special token there in the template.
  std::optional<std::int64_t> answer_end() const {
    if (files_.special.eot) return id_of(files_.special.eot, std::nullopt);
    if (!files_.templates.main) return std::nullopt;
    std::string rest;
    try {
      rest = text_after_answer(ChatTemplate(*files_.templates.main, files_.special, files_.where));
    } catch (const base::UserError&) {
      return std::nullopt;  // a template for something else than a question and an answer
    }
    std::size_t longest = 0;
    std::optional<std::int64_t> out;
    for (const auto& [token, id] : added_) {
      const bool special = has_type(static_cast<std::size_t>(id), TokenType::kControl);
      if (!special || token.size() <= longest || !rest.starts_with(token)) continue;
      longest = token.size();
      out = id;
    }
    return out;
  }

  // The special tokens before and behind a single text.
  std::pair<std::string, std::string> ends() const {
    for (const Doc& step : steps_of(member(json_, "post_processor"), "processors")) {
      if (member(step, "type") != Doc("TemplateProcessing")) continue;
      const Doc& single = member(step, "single");
      if (!single.is_array() || single.empty()) continue;
      const auto token = [](const Doc& piece) {
        const Doc& id = member(member(piece, "SpecialToken"), "id");
        return id.is_string() ? id.get<std::string>() : std::string();
      };
      return {token(single.front()), token(single.back())};
    }
    return {};
  }

  const TokenizerFiles& files_;
  const SpecialIds& fallback_;
  std::size_t size_;
  Doc json_;
  std::vector<std::string> tokens_;
  std::vector<std::int32_t> types_;
  std::vector<std::pair<std::string, std::int64_t>> added_;
  std::vector<base::GgufEntry> out_;
};

}  // namespace

std::vector<base::GgufEntry> gguf_vocabulary(const TokenizerFiles& files, std::int64_t rows,
                                             const SpecialIds& fallback) {
  try {
    return Vocabulary(files, rows, fallback).entries();
  } catch (const Doc::exception& error) {
    throw base::UserError({.where = (base::fs::path(files.where) / kTokenizerJson).string(),
                           .expected = "a tokenizer as the tokenizers library writes it",
                           .found = error.what(),
                           .cause = "the file was edited",
                           .fix = "download the file from the model's repository again"});
  }
}

}  // namespace hone::text
