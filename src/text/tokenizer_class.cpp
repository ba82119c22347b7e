#include "text/tokenizer_class.h"

#include <fmt/format.h>

#include <array>

#include "base/error.h"
#include "text/tokenizer_keys.h"

namespace hone::text {
namespace {

using base::Json;

// Patterns of words of transformers' classes: models/qwen2, models/qwen3_5.
constexpr const char* kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kPieceSpace = "\u2581";

std::optional<std::string> string_or_none(const Json& value) {
  return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
}

[[noreturn]] void refuse_class(std::string_view name, const ModelIdentity& model, const std::string& where) {
  throw base::UserError(
      {.where = where + ", tokenizer_class",
       .expected =
           "a tokenizer class that hone has: TokenizersBackend, or Qwen2's, Llama's, CodeLlama's, Gemma's, GPT2's, "
           "GPTNeoX's or Cohere's",
       .found =
           name.empty() ? "transformers' class for the model_type " + model.model_type : std::string(name),
       .cause = "transformers gives this class a pipeline of its own, in place of tokenizer.json's",
       .fix = "save it once in Python, AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OTHER), and set "
              "tokenizer_class to \"TokenizersBackend\" in OTHER/tokenizer_config.json"});
}

// auto_map names Python code for AutoTokenizer.
bool has_own_code(const Json& config) {
  const Json& map = tokenizer_config_keys().at(config, "auto_map");
  if (map.is_array()) return true;
  return map.is_object() && map.contains("AutoTokenizer") && !map["AutoTokenizer"].is_null();
}

bool is_generic_class(std::string_view name) {
  return name == "TokenizersBackend" || name == "PythonBackend" || name == "PreTrainedTokenizerFast";
}

// The class of a name that transformers looks up.
std::string looked_up(std::string_view name, const ModelIdentity& model, const std::string& where) {
  const KnownClass known = known_class(name);
  if (known.kind == ClassKind::kOther) refuse_class(known.name, model, where);
  return std::string(known.name);
}

Json byte_level_step(bool prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Json split_step(const char* words) {
  return {{"type", "Split"}, {"pattern", {{"Regex", words}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json steps_of(const char* of, Json steps) {
  return {{"type", "Sequence"}, {of, std::move(steps)}};
}

Json replace_step(const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{"String", pattern}}}, {"content", content}};
}

bool flag_or(const Json& settings, const char* key, bool otherwise) {
  const Json& value = tokenizer_config_keys().at(settings, key);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

Json qwen_pipeline(const char* words, bool prefix_space) {
  return {{"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer",
           steps_of("pretokenizers", Json::array({split_step(words), byte_level_step(prefix_space, false)}))},
          {"decoder", byte_level_step(true, true)},
          {"post_processor", true}};
}

// SentencePiece's pieces: U+2581 back to spaces, bytes to text; `strip`: without the space before a text.
Json pieces_decoder(bool strip) {
  Json steps = Json::array({replace_step(kPieceSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (strip) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return steps_of("decoders", std::move(steps));
}

Json llama_pipeline(const Json& settings) {
  const bool prefix_space = flag_or(settings, "add_prefix_space", true);
  const char* const scheme = !prefix_space                        ? "never"
                             : flag_or(settings, "legacy", false) ? "always"
                                                                  : "first";
  return {
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", kPieceSpace}, {"prepend_scheme", scheme}, {"split", false}}},
      {"decoder", pieces_decoder(prefix_space)},
      {"fuse_unk", true},
      {"byte_fallback", true},
      {"post_processor", true}};
}

// It has no legacy form, and its decoder strips the first space in each case.
Json code_llama_pipeline(Json settings) {
  settings["legacy"] = false;
  Json out = llama_pipeline(settings);
  out["decoder"] = pieces_decoder(true);
  out["unk_token"] = string_or_none(tokenizer_config_keys().at(settings, "unk_token")).value_or("None");
  return out;
}

Json gemma_pipeline(const Json& settings) {
  const Json& unknown = tokenizer_config_keys().at(settings, "unk_token");
  return {{"normalizer", replace_step(" ", kPieceSpace)},
          {"pre_tokenizer",
           {{"type", "Split"},
            {"pattern", {{"String", " "}}},
            {"behavior", "MergedWithPrevious"},
            {"invert", false}}},
          {"decoder", pieces_decoder(false)},
          {"unk_token", string_or_none(unknown).value_or("None")},
          {"fuse_unk", true},
          {"byte_fallback", true},
          {"post_processor", true}};
}

Json cohere_pipeline(bool prefix_space) {
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  return {{"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer",
           steps_of("pretokenizers", Json::array({digits, byte_level_step(prefix_space, true)}))},
          {"decoder", byte_level_step(prefix_space, true)},
          {"post_processor", true}};
}

Json gpt2_pipeline(bool nfc, bool prefix_space) {
  return {{"normalizer", nfc ? Json{{"type", "NFC"}} : Json()},
          {"pre_tokenizer", byte_level_step(prefix_space, true)},
          {"decoder", byte_level_step(true, true)},
          // GPTNeoXTokenizer makes a post-processor that adds nothing.
          {"post_processor", !nfc}};
}

}  // namespace

std::string tokenizer_class(const Json& config, const ModelIdentity& model, bool byte_level,
                            const std::string& where) {
  const std::optional<std::string> named =
      string_or_none(tokenizer_config_keys().at(config, "tokenizer_class"));
  const std::optional<std::string> declared = named && !named->empty() ? named : model.tokenizer_class;
  const std::optional<std::string_view> registered = registered_class(model.model_type);
  const bool wrong = names_wrong_class(model.model_type) || names_wrong_class(model.model_name);
  const bool own_code = has_own_code(config);
  if (!own_code && declared && without_fast(*declared) == "LlamaTokenizer" && !wrong && byte_level)
    return "TokenizersBackend";
  if (!own_code && declared && registered && *registered != without_fast(*declared)) {
    if (*registered == "TokenizersBackend") return "TokenizersBackend";
    const std::string_view taken = wrong ? *registered : std::string_view(*declared);
    if (taken.empty()) refuse_class(taken, model, where);
    return is_generic_class(known_class(taken).name) ? "TokenizersBackend" : looked_up(taken, model, where);
  }
  if (own_code && !registered && !(named && known_class(*named).kind != ClassKind::kUnknown)) {
    throw base::UserError(
        {.where = where + ", auto_map",
         .expected = "a tokenizer of transformers",
         .found = "one that is Python code of the model's own",
         .cause = "the folder is of a model that needs trust_remote_code",
         .fix = "save it once in Python as tokenizer.json: AutoTokenizer.from_pretrained(FOLDER, "
                "trust_remote_code=True).backend_tokenizer.save(\"tokenizer.json\")"});
  }
  if (declared) return looked_up(*declared, model, where);
  if (registered && registered->empty()) refuse_class("", model, where);
  return std::string(registered.value_or("TokenizersBackend"));
}

ClassForm form_of_class(std::string_view name, const Json& settings) {
  const bool prefix_space = flag_or(settings, "add_prefix_space", false);
  const Json end = "<|endoftext|>";
  if (name == "Qwen2Tokenizer" || name == "Qwen3_5Tokenizer") {
    return {qwen_pipeline(name == "Qwen2Tokenizer" ? kQwen2Words : kQwen35Words, prefix_space),
            {{"unk_token", end}, {"bos_token", nullptr}, {"eos_token", end}, {"pad_token", end}}};
  }
  if (name == "LlamaTokenizer") {
    return {llama_pipeline(settings), {{"unk_token", "<unk>"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}}};
  }
  if (name == "CodeLlamaTokenizer") {
    return {code_llama_pipeline(settings),
            {{"unk_token", "<unk>"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}},
            {{"prefix_token", "\u2581<PRE>"},
             {"middle_token", "\u2581<MID>"},
             {"suffix_token", "\u2581<SUF>"},
             {"eot_token", "\u2581<EOT>"},
             {"fill_token", "<FILL_ME>"}}};
  }
  if (name == "GemmaTokenizer") {
    return {gemma_pipeline(settings),
            {{"unk_token", "<unk>"},
             {"bos_token", "<bos>"},
             {"eos_token", "<eos>"},
             {"pad_token", "<pad>"},
             {"mask_token", "<mask>"}}};
  }
  if (name == "GPT2Tokenizer") {
    return {gpt2_pipeline(/*nfc=*/false, prefix_space),
            {{"unk_token", end}, {"bos_token", end}, {"eos_token", end}, {"pad_token", nullptr}}};
  }
  if (name == "GPTNeoXTokenizer") {
    return {gpt2_pipeline(/*nfc=*/true, prefix_space),
            {{"unk_token", end}, {"bos_token", end}, {"eos_token", end}, {"pad_token", "<|padding|>"}}};
  }
  if (name == "CohereTokenizer") {
    return {cohere_pipeline(prefix_space),
            {{"unk_token", "<UNK>"},
             {"bos_token", "<BOS_TOKEN>"},
             {"eos_token", "<|END_OF_TURN_TOKEN|>"},
             {"pad_token", "<PAD>"},
             {"cls_token", "<CLS>"},
             {"sep_token", "<SEP>"},
             {"mask_token", "<MASK_TOKEN>"}}};
  }
  return {nullptr, {}};
}

}  // namespace hone::text
