#include "base/strings/pattern.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/strings/pattern_parser.h"

namespace hone::base {

namespace {

using Instruction = Pattern::Instruction;

bool is_word(char32_t c) {
  return c == U'_' || (c >= U'0' && c <= U'9') || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') ||
         (c >= 0xAA && !is_space(c) && (c < 0x2000 || c > 0x2BFF) && c != 0xD7 && c != 0xF7 && c != 0xFFFD);
}

char32_t lower(char32_t c) {
  return c >= U'A' && c <= U'Z' ? c + 32 : c;
}

bool in_class(char name, char32_t c) {
  switch (name) {
    case 'd':
      return c >= U'0' && c <= U'9';
    case 'D':
      return !in_class('d', c);
    case 'w':
      return is_word(c);
    case 'W':
      return !is_word(c);
    case 's':
      return is_space(c);
    default:
      return !is_space(c);
  }
}

}  // namespace

struct Pattern::Program {
  const std::vector<Instruction>& code;
  const std::vector<Pattern::Set>& sets;
  int captures;  // slots of them
  int slots;     // with the marks
  std::size_t memorable;
  Pattern::Memory memory;
};

// Attempts at places of one text. A branch not taken is a Branch on the heap; what it must restore lies
// above.
//
// Whether a split at a place of the text leads to a match does not depend on the way that led there (no
// back-references: number_splits), so one that failed once is not tried again, in this attempt and in later
// ones. The table of failures is made only when many splits were met.
class Pattern::Machine {
 public:
  Machine(const Program& program, std::u32string_view text, long& steps, bool to_the_end = false)
      : program_(program),
        text_(text),
        slots_(static_cast<std::size_t>(program.slots), -1),
        steps_(steps),
        to_the_end_(to_the_end),
        patience_(program.memory == Memory::kAlways  ? 0
                  : program.memory == Memory::kNever ? std::numeric_limits<std::size_t>::max()
                                                     : 8 * text.size() + 1000) {
    if (text.size() > std::numeric_limits<std::int32_t>::max() / 2) throw PatternTooSlow();
  }

  bool attempt(std::size_t at) {
    if (matched_) {
      std::ranges::fill(slots_, -1);
      stack_.clear();
    }
    begin_ = static_cast<std::int32_t>(at);
    matched_ = run(0, begin_, true);
    return matched_;
  }

  // After an attempt that matched.
  Match match() {
    steps_ -= program_.captures;
    Match out{{slots_.begin(), slots_.begin() + program_.captures}};
    out.at[0] = begin_;
    out.at[1] = end_;
    return out;
  }

 private:
  static constexpr int kWay = -1;     // slot of a Branch: go on at pc
  static constexpr int kFailed = -2;  // all above failed: remember it

  struct Branch {
    std::int32_t pc;
    std::int32_t slot;  // or kWay, kFailed
    std::int32_t at;    // or the slot's value to restore
    char32_t split;     // its number, or kNotRemembered
  };

  bool run(int pc, std::int32_t at, bool outermost) {
    const std::size_t floor = stack_.size();
    for (;;) {
      if (--steps_ < 0) throw PatternTooSlow();
      if (step(pc, at)) {
        if (code(pc).op != Instruction::kAccept) continue;
        if (!outermost || !to_the_end_ || static_cast<std::size_t>(at) == text_.size()) {
          end_ = at;
          if (!outermost) drop_ways(floor);
          return true;
        }
      }
      if (!back(pc, at, floor)) return false;
    }
  }

  const Instruction& code(int pc) const { return program_.code[static_cast<std::size_t>(pc)]; }

  // What a look-around tried and left is dropped; what it must restore stays.
  void drop_ways(std::size_t floor) {
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(floor);
    stack_.erase(std::remove_if(begin, stack_.end(), [](const Branch& one) { return one.slot < 0; }),
                 stack_.end());
  }

  void push(Branch one) {
    if (stack_.size() >= Pattern::kMaxBranches) throw PatternTooSlow();
    stack_.push_back(one);
  }

  void set_slot(int slot, std::int32_t value) {
    auto& place = slots_[static_cast<std::size_t>(slot)];
    push({0, slot, place, Pattern::kNotRemembered});
    place = value;
  }

  bool back(int& pc, std::int32_t& at, std::size_t floor) {
    while (stack_.size() > floor) {
      Branch& top = stack_.back();
      if (top.slot == kWay) {
        pc = top.pc;
        at = top.at;
        if (!failures_.empty() && top.split != Pattern::kNotRemembered) {
          top.slot = kFailed;
        } else {
          stack_.pop_back();
        }
        return true;
      }
      if (top.slot >= 0) {
        slots_[static_cast<std::size_t>(top.slot)] = top.at;
      } else {
        failures_[place_of(top.split, top.at)] = true;
      }
      stack_.pop_back();
    }
    return false;
  }

  std::size_t place_of(char32_t split, std::int32_t at) const {
    return split * (text_.size() + 1) + static_cast<std::size_t>(at);
  }

  bool split(const Instruction& one, int& pc, std::int32_t at) {
    constexpr std::size_t kMaxBits = std::size_t{1} << 28U;
    const bool known = one.c != Pattern::kNotRemembered;
    if (known && failures_.empty() && ++splits_ > patience_) {
      splits_ = 0;
      if (program_.memorable * (text_.size() + 1) < kMaxBits)
        failures_.assign(program_.memorable * (text_.size() + 1), false);
    }
    if (known && !failures_.empty() && failures_[place_of(one.c, at)]) return false;
    push({one.y, kWay, at, one.c});
    pc = one.x;
    return true;
  }

  bool word_at(std::int32_t at) const {
    return static_cast<std::size_t>(at) < text_.size() && is_word(character(at));
  }
  char32_t character(std::int32_t at) const { return text_[static_cast<std::size_t>(at)]; }

  static bool same(char32_t a, char32_t b, bool ignore_case) {
    return a == b || (ignore_case && lower(a) == lower(b));
  }

  bool look(const Instruction& one, int& pc, std::int32_t at) {
    std::int32_t from = at;
    if (one.behind >= 0) {
      if (at < one.behind) {
        if (one.negative) pc = one.x;
        return one.negative;
      }
      from = at - one.behind;
    }
    const std::size_t height = stack_.size();
    const bool found = run(pc + 1, from, false);
    while (found && one.negative && stack_.size() > height) {
      if (stack_.back().slot >= 0) slots_[static_cast<std::size_t>(stack_.back().slot)] = stack_.back().at;
      stack_.pop_back();
    }
    if (found == one.negative) return false;
    pc = one.x;
    return true;
  }

  bool back_reference(const Instruction& one, std::int32_t& at) {
    const auto slot = 2 * static_cast<std::size_t>(one.x);
    if (slots_[slot] < 0 || slots_[slot + 1] < 0) return false;
    steps_ -= slots_[slot + 1] - slots_[slot];
    for (auto i = slots_[slot]; i < slots_[slot + 1]; ++i, ++at)
      if (static_cast<std::size_t>(at) >= text_.size() || !same(character(at), character(i), one.ignore_case))
        return false;
    return true;
  }

  bool holds(const Instruction& one, std::int32_t at) const {
    const auto size = static_cast<std::int32_t>(text_.size());
    switch (one.op) {
      case Instruction::kTextStart:
        return at == 0;
      case Instruction::kLineStart:
        return at == 0 || character(at - 1) == U'\n';
      case Instruction::kTextEnd:
        return at == size;
      case Instruction::kTextEndOrLast:
        return at == size || (at + 1 == size && character(at) == U'\n');
      case Instruction::kLineEnd:
        return at == size || character(at) == U'\n';
      default:
        return ((at > 0 && word_at(at - 1)) != word_at(at)) == (one.op == Instruction::kWord);
    }
  }

  bool takes(const Instruction& one, std::int32_t at) const {
    if (static_cast<std::size_t>(at) >= text_.size()) return false;
    switch (one.op) {
      case Instruction::kChar:
        return same(character(at), one.c, one.ignore_case);
      case Instruction::kAny:
        return true;
      case Instruction::kAnyInLine:
        return character(at) != U'\n';
      default:
        return program_.sets[static_cast<std::size_t>(one.x)].has(character(at));
    }
  }

  // One instruction; false: this way fails. kAccept leaves pc.
  bool step(int& pc, std::int32_t& at) {
    const Instruction& one = code(pc);
    switch (one.op) {
      case Instruction::kAccept:
        return true;
      case Instruction::kSplit:
        return split(one, pc, at);
      case Instruction::kJump:
        pc = one.x;
        return true;
      case Instruction::kSave:
      case Instruction::kMark:
        set_slot(one.x, at);
        break;
      case Instruction::kProgress:
        if (slots_[static_cast<std::size_t>(one.x)] == at) return false;
        break;
      case Instruction::kLook:
        return look(one, pc, at);
      case Instruction::kBackReference:
        if (!back_reference(one, at)) return false;
        break;
      case Instruction::kChar:
      case Instruction::kAny:
      case Instruction::kAnyInLine:
      case Instruction::kSet:
        if (!takes(one, at)) return false;
        ++at;
        break;
      default:
        if (!holds(one, at)) return false;
    }
    ++pc;
    return true;
  }

  const Program program_;
  std::u32string_view text_;
  std::vector<std::int32_t> slots_;
  std::vector<Branch> stack_;
  std::vector<bool> failures_;  // [split][place]; empty: not kept yet
  std::size_t splits_ = 0;
  long& steps_;
  bool to_the_end_;
  std::size_t patience_;  // splits before failures are remembered
  bool matched_ = false;
  std::int32_t begin_ = 0;
  std::int32_t end_ = 0;
};

bool Pattern::Set::above_ascii(char32_t c) const {
  const auto after = std::ranges::upper_bound(ranges, c, {}, &std::pair<char32_t, char32_t>::first);
  const bool in_range = after != ranges.begin() && c <= std::prev(after)->second;
  return (in_range || std::ranges::any_of(classes, [c](char name) { return in_class(name, c); })) != negative;
}

void Pattern::Set::finish() {
  std::ranges::sort(ranges);
  std::vector<std::pair<char32_t, char32_t>> merged;
  for (const auto& one : ranges) {
    if (!merged.empty() && one.first <= merged.back().second) {
      merged.back().second = std::max(merged.back().second, one.second);
    } else {
      merged.push_back(one);
    }
  }
  ranges = std::move(merged);
  const bool turned = std::exchange(negative, false);
  const auto in = [this](char32_t c) { return above_ascii(c); };  // true of any character
  for (char32_t c = 0; c < 128; ++c) {
    const bool found = in(c) || (ignore_case && (in(lower(c)) || (c >= U'a' && c <= U'z' && in(c - 32))));
    if (found != turned) ascii[c / 64] |= std::uint64_t{1} << (c % 64);
  }
  negative = turned;
}

Pattern::Pattern(std::string_view utf8, Flags flags, const std::string& where) {
  CompiledPattern compiled = compile_pattern(to_code_points(utf8), flags, where);
  program_ = std::move(compiled.program);
  sets_ = std::move(compiled.sets);
  names_ = std::move(compiled.names);
  slots_ = compiled.slots;
  marks_ = compiled.marks;
  find_first_characters();
  number_splits();
}

// With a back-reference a way depends on what was captured before. In a look-around with a loop that can be
// empty it depends on where the loop's round began, and the look-around may have succeeded another way.
void Pattern::number_splits() {
  const auto is = [](Instruction::Op op) { return [op](const Instruction& one) { return one.op == op; }; };
  const bool references = std::ranges::any_of(program_, is(Instruction::kBackReference));
  std::size_t excluded = 0;  // up to here
  for (std::size_t pc = 0; pc < program_.size(); ++pc) {
    Instruction& one = program_[pc];
    if (one.op == Instruction::kLook && pc >= excluded) {
      const auto body = program_.begin() + static_cast<std::ptrdiff_t>(pc);
      const auto end = program_.begin() + one.x;
      if (std::any_of(body, end, is(Instruction::kMark))) excluded = static_cast<std::size_t>(one.x);
    }
    if (one.op != Instruction::kSplit) continue;
    one.c = references || pc < excluded ? kNotRemembered : static_cast<char32_t>(memorable_++);
  }
}

// Which characters a match can begin with, by following every way to the first instruction that takes one.
void Pattern::find_first_characters() {
  first_.assign(128, false);
  any_first_ = false;
  std::vector<bool> seen(program_.size(), false);
  std::vector<int> open = {0};
  while (!open.empty() && !any_first_) {
    const int pc = open.back();
    open.pop_back();
    if (seen[static_cast<std::size_t>(pc)]) continue;
    seen[static_cast<std::size_t>(pc)] = true;
    const Instruction& one = program_[static_cast<std::size_t>(pc)];
    switch (one.op) {
      case Instruction::kSplit:
        open.push_back(one.y);
        [[fallthrough]];
      case Instruction::kJump:
      case Instruction::kLook:
        open.push_back(one.x);
        break;
      case Instruction::kChar:
        if (one.c < 128) first_[one.c] = true;
        if (one.c < 128 && one.ignore_case)
          for (char32_t c = 0; c < 128; ++c)
            if (lower(c) == lower(one.c)) first_[c] = true;
        break;
      case Instruction::kSet:
        for (char32_t c = 0; c < 128; ++c)
          if (sets_[static_cast<std::size_t>(one.x)].has(c)) first_[c] = true;
        break;
      case Instruction::kAny:
      case Instruction::kAnyInLine:
      case Instruction::kBackReference:
      case Instruction::kAccept:
        any_first_ = true;
        break;
      default:
        open.push_back(pc + 1);
    }
  }
}

Pattern::Program Pattern::program() const {
  return {program_, sets_, slots_, slots_ + marks_, memorable_, memory_};
}

std::optional<Match> Pattern::match(std::u32string_view text, std::size_t at) const {
  long steps = kMaxSteps;
  return match(text, at, steps);
}

std::optional<Match> Pattern::match(std::u32string_view text, std::size_t at, long& steps) const {
  Machine machine(program(), text, steps);
  if (!machine.attempt(at)) return std::nullopt;
  return machine.match();
}

bool Pattern::full_match(std::u32string_view text, long& steps) const {
  return Machine(program(), text, steps, true).attempt(0);
}

// `visit` returns whether to go on.
template <class Visit>
void Pattern::each(std::u32string_view text, long& steps, const Visit& visit, std::size_t from) const {
  Machine machine(program(), text, steps);
  for (std::size_t at = from; at <= text.size();) {
    const bool possible = any_first_ || (at < text.size() && (text[at] >= 128 || first_[text[at]]));
    if (!possible || !machine.attempt(at)) {
      ++at;
      continue;
    }
    const Match found = machine.match();
    at = std::max(found.end(), at + 1);
    if (!visit(found)) return;
  }
}

std::optional<Match> Pattern::search(std::u32string_view text) const {
  long steps = kMaxSteps;
  return search(text, 0, steps);
}

std::optional<Match> Pattern::search(std::u32string_view text, std::size_t from, long& steps) const {
  std::optional<Match> out;
  const auto take = [&out](const Match& one) {
    out = one;
    return false;
  };
  each(text, steps, take, from);
  return out;
}

void Pattern::for_each_match(std::u32string_view text, long& steps,
                             const std::function<void(const Match&)>& visit) const {
  each(text, steps, [&visit](const Match& one) {
    visit(one);
    return true;
  });
}

std::vector<Match> Pattern::find_all(std::u32string_view text) const {
  long steps = kMaxSteps;
  std::vector<Match> out;
  for_each_match(text, steps, [&out](const Match& one) { out.push_back(one); });
  return out;
}

std::u32string Pattern::replace(std::u32string_view text, std::u32string_view with) const {
  long steps = kMaxSteps;
  return replace(text, with, steps);
}

std::u32string Pattern::replace(std::u32string_view text, std::u32string_view with, long& steps) const {
  std::u32string out;
  std::size_t from = 0;
  for_each_match(text, steps, [&](const Match& one) {
    out += text.substr(from, one.begin() - from);
    for (std::size_t i = 0; i < with.size(); ++i) {
      if (with[i] == U'\\' && i + 1 < with.size() && with[i + 1] >= U'1' && with[i + 1] <= U'9') {
        out += one.text(text, static_cast<int>(with[++i] - U'0'));
      } else {
        out += with[i];
      }
    }
    from = one.end();
  });
  out += text.substr(from);
  return out;
}

}  // namespace hone::base
