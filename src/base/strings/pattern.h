// Regular expressions as Python's `re` reads them, over code points. Every pattern from an option or a file
// is matched by it. It backtracks on the heap instead of the stack (std::regex recurses once per character)
// and remembers which branches failed, so that (a+)+$ takes time proportional to the text.
//
// Limits, each a UserError when the pattern is read: kMaxSource code points, groups kMaxDepth deep,
// kMaxProgram instructions after {m,n} is written out. Matching throws PatternTooSlow after kMaxSteps steps
// (reached only with a back-reference, or with a long text and a long pattern) or kMaxBranches open branches.
//
// Supported: literals, escapes (\d \w \s \b \B \A \Z \n \xHH \uHHHH ...), classes, groups (plain, named,
// (?:), (?i:) and (?ims) at the start), alternatives, * + ? {m,n} greedy and lazy, look-ahead, look-behind of
// fixed width, back-references. Not supported, and a UserError: possessive and atomic groups, conditionals,
// (?x), \p, \N. \d is 0 to 9; \w matches every letter above ASCII; case is ignored for ASCII only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings/code_points.h"

namespace hone::base {

struct PatternTooSlow {};  // one call, or the calls that share a budget, took too many steps

struct Match {
  std::vector<std::ptrdiff_t> at;  // begin and end of group 0, 1, ...; -1: did not participate
  std::size_t begin(int group = 0) const {
    return static_cast<std::size_t>(at[2 * static_cast<std::size_t>(group)]);
  }
  std::size_t end(int group = 0) const {
    return static_cast<std::size_t>(at[2 * static_cast<std::size_t>(group) + 1]);
  }
  bool has(int group) const { return at[2 * static_cast<std::size_t>(group)] >= 0; }
  std::u32string_view text(std::u32string_view of, int group = 0) const {
    return has(group) ? of.substr(begin(group), end(group) - begin(group)) : std::u32string_view();
  }
};

class Pattern {
 public:
  static constexpr long kMaxSteps = 20'000'000;      // about 0.2 s
  static constexpr std::size_t kMaxSource = 65'536;  // code points
  static constexpr std::size_t kMaxProgram = 100'000;
  static constexpr int kMaxDepth = 200;
  static constexpr std::size_t kMaxBranches = 6'000'000;  // 96 MB
  struct Flags {
    bool ignore_case = false;
    bool multi_line = false;
    bool dot_all = false;
  };

  // UserError at `where` when the pattern does not parse, exceeds a limit, or uses unsupported syntax.
  Pattern(std::string_view utf8, Flags flags, const std::string& where);
  explicit Pattern(std::string_view utf8) : Pattern(utf8, {}, "pattern") {}

  // Each call has a budget of kMaxSteps; the overloads with `steps` use a budget that several calls share.
  std::optional<Match> match(std::u32string_view text, std::size_t at = 0) const;  // beginning at `at`
  std::optional<Match> match(std::u32string_view text, std::size_t at, long& steps) const;
  bool full_match(std::u32string_view text, long& steps) const;  // re.fullmatch
  std::optional<Match> search(std::u32string_view text) const;
  std::optional<Match> search(std::u32string_view text, std::size_t from, long& steps) const;
  std::vector<Match> find_all(std::u32string_view text) const;  // as finditer
  void for_each_match(std::u32string_view text, long& steps,
                      const std::function<void(const Match&)>& visit) const;
  // As re.sub: `with` may name groups by \1 .. \9.
  std::u32string replace(std::u32string_view text, std::u32string_view with) const;
  std::u32string replace(std::u32string_view text, std::u32string_view with, long& steps) const;
  const std::map<std::string, int>& groups() const { return names_; }

  // For tests: failed branches are remembered from the first step on, or never. By default they are
  // remembered once a text needs many steps.
  enum class Memory : unsigned char { kWhenSlow, kAlways, kNever };
  void keep_failures(Memory when) { memory_ = when; }

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
    char32_t c = 0;    // kSplit: its number among those whose failures are remembered, kNotRemembered: none
  };
  static constexpr char32_t kNotRemembered = 0xFFFFFFFF;

  struct Set {
    bool negative = false;
    bool ignore_case = false;
    std::vector<std::pair<char32_t, char32_t>> ranges;
    std::string classes;                   // of "dDwWsS"
    std::array<std::uint64_t, 2> ascii{};  // a bit for each character below 128, set by finish()
    void finish();                         // sorts; once, before has()
    bool has(char32_t c) const { return c < 128 ? (ascii[c / 64] >> (c % 64) & 1U) != 0 : above_ascii(c); }
    bool above_ascii(char32_t c) const;
  };

 private:
  template <class Visit>
  void each(std::u32string_view text, long& steps, const Visit& visit, std::size_t from = 0) const;
  struct Program;
  class Machine;
  Program program() const;
  void find_first_characters();
  void number_splits();

  std::vector<Instruction> program_;
  std::vector<Set> sets_;
  std::map<std::string, int> names_;
  int slots_ = 2;  // of captures; marks come after
  int marks_ = 0;
  std::size_t memorable_ = 0;  // splits whose failures can be remembered
  Memory memory_ = Memory::kWhenSlow;
  bool any_first_ = true;  // else a match begins with one of first_, or above ASCII
  std::vector<bool> first_;
};

}  // namespace hone::base
