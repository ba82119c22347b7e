#include "text/gguf/gguf_parts.h"

namespace hone::text {
namespace {

using base::Json;

// The patterns as they stand in tokenizer.json. Llama 3's and Qwen2's differ in \p{N}, Qwen2's and Qwen3.5's in
// \p{M}; GPT-4o's is Tekken's with contractions and digits by three.
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr const char* kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json split_by(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

}  // namespace

Json byte_level(bool gpt2_pattern) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", gpt2_pattern}};
}

std::vector<PreTokenizer> known_pre_tokenizers() {
  const Json digits = Json::array({{{"type", "Digits"}, {"individual_digits", true}}});
  const PreTokenizer llama = {.name = "llama-bpe",
                              .steps = Json::array({split_by(kLlama3Pattern)}),
                              .ignore_merges = true,
                              .adds_bos = true};
  const PreTokenizer llama_merged = {.name = "dbrx", .steps = llama.steps};
  const auto called = [](PreTokenizer pre, std::string_view name) {
    pre.name = name;
    return pre;
  };
  return {{.name = "smollm", .steps = digits, .gpt2_pattern = true},
          {.name = "gpt-2", .steps = Json::array(), .gpt2_pattern = true},
          {.name = "default", .steps = Json::array(), .gpt2_pattern = true},
          llama,
          {.name = "qwen2", .steps = Json::array({split_by(kQwen2Pattern)}), .nfc = true},
          {.name = "qwen35", .steps = Json::array({split_by(kQwen35Pattern)}), .nfc = true},
          {.name = "tekken",
           .steps = Json::array({split_by(kTekkenPattern)}),
           .ignore_merges = true,
           .adds_bos = true},
          {.name = "gpt-4o", .steps = Json::array({split_by(kGpt4oPattern)})},
          llama_merged,
          {.name = "olmo", .steps = Json::array(), .gpt2_pattern = true, .nfc = true},
          called(llama_merged, "smaug-bpe"),
          called(llama, "llama3"),
          called(llama, "llama-v3"),
          called(llama, "lfm2"),
          called(llama, "pixtral"),
          {.name = "refact", .steps = digits, .gpt2_pattern = true},
          {.name = "starcoder", .steps = digits, .gpt2_pattern = true}};
}

}  // namespace hone::text
