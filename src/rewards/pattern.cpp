#include "rewards/pattern.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "rewards/pattern_parser.h"

namespace hone::rewards {

namespace {

using Instruction = Pattern::Instruction;

bool is_word(char32_t c) {
  return c == U'_' || (c >= U'0' && c <= U'9') || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') ||
         (c >= 0xAA && !is_space(c) && (c < 0x2000 || c > 0x2BFF) && c != 0xD7 && c != 0xF7 && c != 0xFFFD);
}

char32_t lower(char32_t c) {
  return c >= U'A' && c <= U'Z' ? c + 32 : c;
}

// One attempt at one place of a text. A branch not taken is a Branch on the heap; what it must restore lies
// above.
class Machine {
 public:
  Machine(const std::vector<Instruction>& program, const std::vector<Pattern::Set>& sets,
          std::u32string_view text, int slots, long& steps)
      : program_(program),
        sets_(sets),
        text_(text),
        slots_(static_cast<std::size_t>(slots), -1),
        steps_(steps) {}

  bool run(std::size_t pc, std::size_t at) {
    const std::size_t floor = stack_.size();
    for (;;) {
      if (--steps_ < 0) throw PatternTooSlow();
      if (step(pc, at)) {
        if (program_[pc].op != Instruction::kAccept) continue;
        end_ = at;
        // What a look-around tried and left is dropped; what it must restore stays.
        std::erase_if(stack_, [&, index = std::size_t{0}](const Branch& one) mutable {
          return index++ >= floor && one.slot < 0;
        });
        return true;
      }
      if (!back(pc, at, floor)) return false;
    }
  }

  std::size_t end() const { return end_; }
  std::vector<std::ptrdiff_t>& slots() { return slots_; }

 private:
  struct Branch {
    std::size_t pc, at;
    int slot;  // -1: go on at pc; else: restore slot
    std::ptrdiff_t old;
  };

  void set_slot(int slot, std::ptrdiff_t value) {
    auto& place = slots_[static_cast<std::size_t>(slot)];
    stack_.push_back({0, 0, slot, place});
    place = value;
  }

  bool back(std::size_t& pc, std::size_t& at, std::size_t floor) {
    while (stack_.size() > floor) {
      const Branch top = stack_.back();
      stack_.pop_back();
      if (top.slot >= 0) {
        slots_[static_cast<std::size_t>(top.slot)] = top.old;
        continue;
      }
      pc = top.pc;
      at = top.at;
      return true;
    }
    return false;
  }

  bool word_at(std::size_t at) const { return at < text_.size() && is_word(text_[at]); }

  bool same(char32_t a, char32_t b, bool ignore_case) const {
    return a == b || (ignore_case && lower(a) == lower(b));
  }

  bool look(const Instruction& one, std::size_t& pc, std::size_t at) {
    std::size_t from = at;
    if (one.behind >= 0) {
      if (at < static_cast<std::size_t>(one.behind)) {
        if (one.negative) pc = static_cast<std::size_t>(one.x);
        return one.negative;
      }
      from = at - static_cast<std::size_t>(one.behind);
    }
    const std::vector<std::ptrdiff_t> before = slots_;
    const std::size_t height = stack_.size();
    const bool found = run(pc + 1, from);
    if (one.negative || !found) {
      stack_.resize(height);
      slots_ = before;
    }
    if (found == one.negative) return false;
    pc = static_cast<std::size_t>(one.x);
    return true;
  }

  bool back_reference(const Instruction& one, std::size_t& at) const {
    const auto slot = static_cast<std::size_t>(2 * one.x);
    if (slots_[slot] < 0 || slots_[slot + 1] < 0) return false;
    for (auto i = slots_[slot]; i < slots_[slot + 1]; ++i, ++at)
      if (at >= text_.size() || !same(text_[at], text_[static_cast<std::size_t>(i)], one.ignore_case))
        return false;
    return true;
  }

  bool holds(const Instruction& one, std::size_t at) const {
    const bool at_end = at == text_.size();
    switch (one.op) {
      case Instruction::kTextStart:
        return at == 0;
      case Instruction::kLineStart:
        return at == 0 || text_[at - 1] == U'\n';
      case Instruction::kTextEnd:
        return at_end;
      case Instruction::kTextEndOrLast:
        return at_end || (at + 1 == text_.size() && text_[at] == U'\n');
      case Instruction::kLineEnd:
        return at_end || text_[at] == U'\n';
      default:
        return ((at > 0 && word_at(at - 1)) != word_at(at)) == (one.op == Instruction::kWord);
    }
  }

  bool takes(const Instruction& one, std::size_t at) const {
    if (at >= text_.size()) return false;
    switch (one.op) {
      case Instruction::kChar:
        return same(text_[at], one.c, one.ignore_case);
      case Instruction::kAny:
        return true;
      case Instruction::kAnyInLine:
        return text_[at] != U'\n';
      default:
        return sets_[static_cast<std::size_t>(one.x)].has(text_[at]);
    }
  }

  // One instruction; false: this way fails. kAccept leaves pc.
  bool step(std::size_t& pc, std::size_t& at) {
    const Instruction& one = program_[pc];
    switch (one.op) {
      case Instruction::kAccept:
        return true;
      case Instruction::kSplit:
        stack_.push_back({static_cast<std::size_t>(one.y), at, -1, 0});
        pc = static_cast<std::size_t>(one.x);
        return true;
      case Instruction::kJump:
        pc = static_cast<std::size_t>(one.x);
        return true;
      case Instruction::kSave:
      case Instruction::kMark:
        set_slot(one.x, static_cast<std::ptrdiff_t>(at));
        break;
      case Instruction::kProgress:
        if (slots_[static_cast<std::size_t>(one.x)] == static_cast<std::ptrdiff_t>(at)) return false;
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

  const std::vector<Instruction>& program_;
  const std::vector<Pattern::Set>& sets_;
  std::u32string_view text_;
  std::vector<std::ptrdiff_t> slots_;
  std::vector<Branch> stack_;
  long& steps_;
  std::size_t end_ = 0;
};

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

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::u32string to_code_points(std::string_view utf8) {
  std::u32string out;
  out.reserve(utf8.size());
  for (std::size_t i = 0; i < utf8.size();) {
    const auto lead = static_cast<unsigned char>(utf8[i]);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xC2 ? 0
                               : lead < 0xE0 ? 2
                               : lead < 0xF0 ? 3
                               : lead < 0xF5 ? 4
                                             : 0;
    char32_t c = length == 1 ? lead : lead & (0xFFU >> (length + 1));
    bool good = length > 0 && i + length <= utf8.size();
    for (std::size_t k = 1; good && k < length; ++k) {
      const auto next = static_cast<unsigned char>(utf8[i + k]);
      good = (next & 0xC0U) == 0x80U;
      c = c << 6 | (next & 0x3FU);
    }
    out += good ? c : U'\uFFFD';
    i += good ? length : 1;
  }
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto add = [&out](char32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  for (const char32_t c : text) {
    if (c < 0x80) {
      add(c);
    } else if (c < 0x800) {
      add(0xC0U | c >> 6);
      add(0x80U | (c & 0x3FU));
    } else if (c < 0x10000) {
      add(0xE0U | c >> 12);
      add(0x80U | (c >> 6 & 0x3FU));
      add(0x80U | (c & 0x3FU));
    } else {
      add(0xF0U | c >> 18);
      add(0x80U | (c >> 12 & 0x3FU));
      add(0x80U | (c >> 6 & 0x3FU));
      add(0x80U | (c & 0x3FU));
    }
  }
  return out;
}

bool Pattern::Set::has(char32_t c) const {
  const auto in = [this](char32_t one) {
    return std::ranges::any_of(
               ranges, [one](const auto& range) { return one >= range.first && one <= range.second; }) ||
           std::ranges::any_of(classes, [one](char name) { return in_class(name, one); });
  };
  bool found = in(c);
  if (!found && ignore_case && c < 128) found = in(lower(c)) || (c >= U'a' && c <= U'z' && in(c - 32));
  return found != negative;
}

Pattern::Pattern(std::string_view utf8, Flags flags, const std::string& where) {
  CompiledPattern compiled = compile_pattern(to_code_points(utf8), flags, where);
  program_ = std::move(compiled.program);
  sets_ = std::move(compiled.sets);
  names_ = std::move(compiled.names);
  slots_ = compiled.slots;
  marks_ = compiled.marks;
  find_first_characters();
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

namespace {

std::optional<Match> match_at(const std::vector<Instruction>& program, const std::vector<Pattern::Set>& sets,
                              std::u32string_view text, std::size_t at, int slots, int marks, long& steps) {
  Machine machine(program, sets, text, slots + marks, steps);
  if (!machine.run(0, at)) return std::nullopt;
  Match out{std::move(machine.slots())};
  out.at.resize(static_cast<std::size_t>(slots));
  out.at[0] = static_cast<std::ptrdiff_t>(at);
  out.at[1] = static_cast<std::ptrdiff_t>(machine.end());
  return out;
}

}  // namespace

std::optional<Match> Pattern::match(std::u32string_view text, std::size_t at) const {
  long steps = kMaxSteps;
  return match_at(program_, sets_, text, at, slots_, marks_, steps);
}

std::optional<Match> Pattern::search(std::u32string_view text, std::size_t from) const {
  long steps = kMaxSteps;
  return search(text, from, steps);
}

std::optional<Match> Pattern::search(std::u32string_view text, std::size_t from, long& steps) const {
  for (std::size_t at = from; at <= text.size(); ++at) {
    if (!any_first_ && (at == text.size() || (text[at] < 128 && !first_[text[at]]))) continue;
    if (auto found = match_at(program_, sets_, text, at, slots_, marks_, steps)) return found;
  }
  return std::nullopt;
}

std::vector<Match> Pattern::find_all(std::u32string_view text) const {
  std::vector<Match> out;
  long steps = kMaxSteps;
  for (std::size_t from = 0; from <= text.size();) {
    auto found = search(text, from, steps);
    if (!found) break;
    from = found->end() > found->begin() ? found->end() : found->end() + 1;
    out.push_back(std::move(*found));
  }
  return out;
}

std::u32string Pattern::replace(std::u32string_view text, std::u32string_view with) const {
  std::u32string out;
  std::size_t from = 0;
  for (const Match& one : find_all(text)) {
    out += text.substr(from, one.begin() - from);
    for (std::size_t i = 0; i < with.size(); ++i) {
      if (with[i] == U'\\' && i + 1 < with.size() && with[i + 1] >= U'1' && with[i + 1] <= U'9') {
        out += one.text(text, static_cast<int>(with[++i] - U'0'));
      } else {
        out += with[i];
      }
    }
    from = one.end();
  }
  out += text.substr(from);
  return out;
}

}  // namespace hone::rewards
