// The tokens of LaTeX, by the longest match, as latex2sympy2_extended's grammar has them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::rewards {

struct MathToken {
  enum Type {
    kNumber,        // digits with at most one '.'
    kPercent,       // text: the number
    kScientific,    // 1E5
    kLetter,        // also \ell and its like; text: the symbol's name
    kGreek,         // text: alpha ...
    kText,          // \text{...}: text: what stands between, without spaces and parentheses
    kDifferential,  // d x
    kExponential,   // e
    kInfinity,
    kEmptySet,
    kReals,
    kFunction,  // text: sin, log, ...
    kCommand,   // text: frac, sqrt, cdot ... one name for several spellings
    kMark,      // text: + - * / ( ) { } [ ] \{ \} ^ _ , ; | ! = < <= > >= != ~ transpose degree ...
    kUnknown,   // known to the grammar, not to hone: nothing that holds it parses
    kEnd
  } type;
  std::u32string text;
  std::size_t begin = 0;
  std::size_t end = 0;
};

constexpr bool is_letter(char32_t c) {
  return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z');
}

// Whether `text`, cut into `tokens`, has what hone does not always work out: matrices, sums, integrals, limits, sets of
// numbers. What of it does not parse may be well-formed.
bool has_undecided_latex(const std::vector<MathToken>& tokens, const std::u32string& text);

// Ends with kEnd. Empty: a character that no rule matches.
std::vector<MathToken> tokenize_latex(const std::u32string& text);

}  // namespace hone::rewards
