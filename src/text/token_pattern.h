// Which tokens may follow where a whole text is to match a regular expression (vLLM's structured outputs).
//
// The expression is Python's (base/strings/pattern.h) without look-around, back-references and \b. A token is allowed when its
// text keeps a match possible, also where it ends within a letter; a stop token where the text is a whole match.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace hone::text {

// The texts of a tokenizer's tokens, which any number of patterns read.
struct TokenTexts {
  explicit TokenTexts(const Tokenizer& tokenizer);
  std::vector<std::string> bytes;    // token_bytes() of each id
  std::vector<std::int32_t> sorted;  // those with text, by it: neighbors share the steps of their beginning
};

class TokenPattern {
 public:
  // UserError for an expression that does not parse, or has what is left out; it names `option`.
  TokenPattern(const Tokenizer& tokenizer, const std::string& expression, const std::string& option);
  // For an expression from a request: what it may take of memory is bounded by `most_states` (constrain), and `where`
  // begins a UserError.
  TokenPattern(std::shared_ptr<const TokenTexts> texts, const std::string& expression,
               const std::string& where, std::size_t most_states);
  ~TokenPattern();
  TokenPattern(TokenPattern&&) noexcept;
  TokenPattern& operator=(TokenPattern&&) noexcept;

  // Sets the scores [V] of tokens that may not follow the tokens `ids` to -infinity; stop_ids may follow a whole
  // match. Where nothing may follow, the first of stop_ids does. Special tokens have no text. Safe to call from
  // several threads. Throws base::PatternTooSlow where the expression has more states than are kept.
  void constrain(std::span<const std::int32_t> ids, std::span<const std::int64_t> stop_ids,
                 std::span<float> scores) const;

  std::size_t states() const;  // that are kept so far, of at most `most_states`

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The bytes that each token adds to a text: of byte-level tokens as GPT-2 writes them, else with U+2581 for a space and
// <0x0A> for a byte. Empty for special tokens.
std::vector<std::string> token_bytes(const Tokenizer& tokenizer);

}  // namespace hone::text
