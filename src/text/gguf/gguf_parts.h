// The reader and the writer of a GGUF's tokenizer share these: token types, and what the names of
// pre-tokenizers stand for.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace hone::text {

// tokenizer.ggml.token_type: llama.cpp's numbers.
enum class TokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// Says what a name in tokenizer.ggml.pre stands for.
struct PreTokenizer {
  std::string_view name;
  base::Json steps;           // before ByteLevel, in order
  bool gpt2_pattern = false;  // ByteLevel splits by GPT-2's own pattern
  bool nfc = false;
  bool ignore_merges = false;  // a word that is a token is taken whole
  bool adds_bos = false;       // when the file does not say (llama.cpp's default for the name)
};

// All that hone reads and writes; where several names mean the same, the first is written.
std::vector<PreTokenizer> known_pre_tokenizers();

// ByteLevel as tokenizer.json has it; `gpt2_pattern`: it splits too.
base::Json byte_level(bool gpt2_pattern);

}  // namespace hone::text
