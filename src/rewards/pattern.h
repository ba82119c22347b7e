// Regular expressions as Python's `re` reads them, over code points, with a heap instead of recursion: a long
// completion cannot overflow the stack (std::regex does), and a slow pattern ends with PatternTooSlow.
//
// Known: literals, escapes (\d \w \s \b \B \A \Z \n \xHH \uHHHH ...), classes, groups (plain, named, (?:),
// (?i:) and
// (?ims) at the start), alternatives, * + ? {m,n} greedy and lazy, look-ahead, look-behind of fixed width,
// back-references. Not known, and a UserError: possessive and atomic forms, conditionals, (?x), \p, \N. \d is
// 0 to 9;
// \w takes every letter above ASCII; case is ignored for ASCII alone.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hone::rewards {

std::u32string to_code_points(std::string_view utf8);  // a damaged byte becomes U+FFFD
std::string to_utf8(std::u32string_view text);
bool is_space(char32_t c);  // as Python's str.isspace()

struct PatternTooSlow {};  // thrown after kMaxSteps steps in one call

struct Match {
  std::vector<std::ptrdiff_t> at;  // begin and end of group 0, 1, ...; -1: took no part
  std::size_t begin(int group = 0) const {
    return static_cast<std::size_t>(at[static_cast<std::size_t>(2 * group)]);
  }
  std::size_t end(int group = 0) const {
    return static_cast<std::size_t>(at[static_cast<std::size_t>(2 * group) + 1]);
  }
  bool has(int group) const { return at[static_cast<std::size_t>(2 * group)] >= 0; }
  std::u32string_view text(std::u32string_view of, int group = 0) const {
    return has(group) ? of.substr(begin(group), end(group) - begin(group)) : std::u32string_view();
  }
};

class Pattern {
 public:
  static constexpr long kMaxSteps = 20'000'000;
  struct Flags {
    bool ignore_case = false;
    bool multi_line = false;
    bool dot_all = false;
  };

  // UserError at `where` when it does not parse or uses what is not known here.
  Pattern(std::string_view utf8, Flags flags, const std::string& where);
  explicit Pattern(std::string_view utf8) : Pattern(utf8, {}, "pattern") {}

  std::optional<Match> match(std::u32string_view text, std::size_t at = 0) const;  // beginning at `at`
  std::optional<Match> search(std::u32string_view text, std::size_t from = 0) const;
  std::vector<Match> find_all(std::u32string_view text) const;  // as finditer
  // As re.sub: `with` may name groups by \1 .. \9.
  std::u32string replace(std::u32string_view text, std::u32string_view with) const;
  const std::map<std::string, int>& groups() const { return names_; }

  struct Instruction {
    enum Op : unsigned char {
      kChar,
      kAny,
      kAnyInLine,
      kSet,
      kSplit,
      kJump,
      kSave,
      kMark,
      kProgress,
      kTextStart,
      kLineStart,
      kTextEnd,
      kTextEndOrLast,
      kLineEnd,
      kWord,
      kNotWord,
      kLook,
      kBackReference,
      kAccept
    } op;
    bool ignore_case = false;
    bool negative = false;
    int behind = -1;   // kLook: width to step back; -1: ahead
    int x = 0, y = 0;  // targets, slots, sets
    char32_t c = 0;
  };
  struct Set {
    bool negative = false;
    bool ignore_case = false;
    std::vector<std::pair<char32_t, char32_t>> ranges;
    std::string classes;  // of "dDwWsS"
    bool has(char32_t c) const;
  };

 private:
  std::optional<Match> search(std::u32string_view text, std::size_t from, long& steps) const;
  void find_first_characters();

  std::vector<Instruction> program_;
  std::vector<Set> sets_;
  std::map<std::string, int> names_;
  int slots_ = 2;  // of captures; marks come after
  int marks_ = 0;
  bool any_first_ = true;  // else a match begins with one of first_, or above ASCII
  std::vector<bool> first_;
};

}  // namespace hone::rewards
