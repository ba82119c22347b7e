// Which tokens may follow where a whole text is to match a regular expression (vLLM's structured outputs).
//
// The expression is Python's (base/strings/pattern.h) without look-around, back-references and \b. A token is allowed when its
// text keeps a match possible, also where it ends within a letter; a stop token where the text is a whole match.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "text/tokenizer.h"

namespace hone::text {

class TokenPattern {
 public:
  // UserError for an expression that does not parse, or has what is left out; it names `option`.
  TokenPattern(const Tokenizer& tokenizer, const std::string& expression, const std::string& option);
  ~TokenPattern();
  TokenPattern(TokenPattern&&) noexcept;
  TokenPattern& operator=(TokenPattern&&) noexcept;

  // Sets the scores [V] of tokens that may not follow the tokens `ids` to -infinity; stop_ids may follow a whole
  // match. Where nothing may follow, the first of stop_ids does. Special tokens have no text. Safe to call from
  // several threads.
  void constrain(std::span<const std::int32_t> ids, std::span<const std::int64_t> stop_ids,
                 std::span<float> scores) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The bytes that each token adds to a text: of byte-level tokens as GPT-2 writes them, else with U+2581 for a space and
// <0x0A> for a byte. Empty for special tokens.
std::vector<std::string> token_bytes(const Tokenizer& tokenizer);

}  // namespace hone::text
