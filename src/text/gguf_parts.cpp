#include "text/gguf_parts.h"

namespace hone::text {
namespace {

using base::Json;

// The patterns as they stand in the tokenizer.json of Llama 3 and Qwen2; they differ in \p{N}.
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

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
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  return {
      {.name = "smollm", .steps = Json::array({digits}), .gpt2_pattern = true},
      {.name = "gpt-2", .steps = Json::array(), .gpt2_pattern = true},
      {.name = "default", .steps = Json::array(), .gpt2_pattern = true},
      {.name = "llama-bpe",
       .steps = Json::array({split_by(kLlama3Pattern)}),
       .gpt2_pattern = false,
       .ignore_merges = true,
       .adds_bos = true},
      {.name = "qwen2", .steps = Json::array({split_by(kQwen2Pattern)}), .gpt2_pattern = false, .nfc = true}};
}

}  // namespace hone::text
