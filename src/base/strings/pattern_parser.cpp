#include "base/strings/pattern_parser.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/error.h"

namespace hone::base {

namespace {

using Instruction = Pattern::Instruction;
using Flags = Pattern::Flags;

constexpr int kNoLimit = -1;
constexpr int kVaries = -1;
constexpr int kNotKnown = -2;

struct Node {
  enum Kind { kOne, kSequence, kAlternatives, kRepeat, kGroup, kLookAround } kind;
  Instruction one{};  // kOne; of kLookAround: negative, behind >= 0 for look-behind
  int least = 0, most = 0;
  bool lazy = false;
  int group = 0;  // kGroup; 0: not captured
  std::vector<std::unique_ptr<Node>> parts;
  int width = kNotKnown;  // of what it takes; set by measure()
};
using Tree = std::unique_ptr<Node>;

Tree make(Node::Kind kind) {
  auto out = std::make_unique<Node>();
  out->kind = kind;
  return out;
}

// The pattern, or of a long one what stands around `at`.
std::string shown(std::u32string_view text, std::size_t at) {
  constexpr std::size_t kMost = 160;
  constexpr std::size_t kBefore = 40;
  if (text.size() <= kMost) return to_utf8(text);
  const std::size_t begin = at < kBefore ? 0 : at - kBefore;
  const std::size_t end = std::min(text.size(), begin + kMost / 2);
  return (begin > 0 ? "..." : "") + to_utf8(text.substr(begin, end - begin)) +
         (end < text.size() ? "..." : "");
}

class Parser {
 public:
  Parser(const std::u32string& text, Flags flags, const std::string& where, CompiledPattern& out)
      : text_(text), flags_(flags), where_(where), out_(out) {}

  Tree parse() {
    leading_flags();
    Tree tree = alternatives();
    if (at_ < text_.size()) fail("a group before ')'");
    return tree;
  }

  [[noreturn]] void fail(const std::string& expected) const {
    throw UserError({.where = where_,
                     .expected = expected,
                     .found = shown(text_, at_) + ", character " + std::to_string(at_ + 1),
                     .fix = "write it as Python's re, without atomic groups and conditionals"});
  }

 private:
  bool more() const { return at_ < text_.size(); }
  bool next_is(char32_t c) const { return more() && text_[at_] == c; }
  bool take(char32_t c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }

  bool read_flags(Flags& flags) {  // the letters of (?ims
    bool any = false;
    for (; more(); ++at_, any = true) {
      if (text_[at_] == U'i') {
        flags.ignore_case = true;
      } else if (text_[at_] == U'm') {
        flags.multi_line = true;
      } else if (text_[at_] == U's') {
        flags.dot_all = true;
      } else if (text_[at_] != U'u') {
        break;
      }
    }
    return any;
  }

  void leading_flags() {
    if (!take(U"(?")) return;
    Flags flags = flags_;
    if (read_flags(flags) && take(U')')) {
      flags_ = flags;
    } else {
      at_ = 0;
    }
  }

  Tree alternatives() {
    if (++depth_ > Pattern::kMaxDepth) fail("groups at most " + std::to_string(Pattern::kMaxDepth) + " deep");
    Tree out = make(Node::kAlternatives);
    do out->parts.push_back(sequence());
    while (take(U'|'));
    --depth_;
    return out;
  }

  Tree sequence() {
    Tree out = make(Node::kSequence);
    while (more() && !next_is(U'|') && !next_is(U')')) out->parts.push_back(repeated());
    return out;
  }

  std::optional<int> number() {
    if (!more() || text_[at_] < U'0' || text_[at_] > U'9') return std::nullopt;
    int value = 0;
    for (; more() && text_[at_] >= U'0' && text_[at_] <= U'9' && value < 100'000; ++at_)
      value = value * 10 + static_cast<int>(text_[at_] - U'0');
    return value;
  }

  // {m}, {m,}, {,n}, {m,n}; anything else is a literal brace.
  bool braces(int& least, int& most) {
    const std::size_t start = at_++;
    const auto low = number();
    std::optional<int> high = low;
    bool comma = false;
    if (take(U',')) {
      comma = true;
      high = number();
    }
    if ((!low && !comma) || (!low && !high) || !take(U'}')) {
      at_ = start;
      return false;
    }
    least = low.value_or(0);
    most = high.value_or(kNoLimit);
    if (most != kNoLimit && most < least) fail("a range that goes up");
    return true;
  }

  bool quantifier(int& least, int& most) {
    if (take(U'*')) {
      least = 0, most = kNoLimit;
    } else if (take(U'+')) {
      least = 1, most = kNoLimit;
    } else if (take(U'?')) {
      least = 0, most = 1;
    } else {
      return next_is(U'{') && braces(least, most);
    }
    return true;
  }

  Tree repeated() {
    Tree one = atom();
    int least = 0;
    int most = 0;
    if (!quantifier(least, most)) return one;
    Tree out = make(Node::kRepeat);
    out->least = least;
    out->most = most;
    out->lazy = take(U'?');
    if (next_is(U'+') || next_is(U'*') || next_is(U'?'))
      fail("one quantifier (possessive ones are not supported)");
    out->parts.push_back(std::move(one));
    return out;
  }

  Tree single(Instruction::Op op) {
    Tree out = make(Node::kOne);
    out->one.op = op;
    return out;
  }

  Tree literal(char32_t c) {
    Tree out = single(Instruction::kChar);
    out->one.c = c;
    out->one.ignore_case = flags_.ignore_case;
    return out;
  }

  Tree set(Pattern::Set value) {
    value.ignore_case = flags_.ignore_case;
    value.finish();
    Tree out = single(Instruction::kSet);
    out->one.x = static_cast<int>(out_.sets.size());
    out_.sets.push_back(std::move(value));
    return out;
  }

  Tree atom() {
    const char32_t c = text_[at_++];
    switch (c) {
      case U'.':
        return single(flags_.dot_all ? Instruction::kAny : Instruction::kAnyInLine);
      case U'^':
        return single(flags_.multi_line ? Instruction::kLineStart : Instruction::kTextStart);
      case U'$':
        return single(flags_.multi_line ? Instruction::kLineEnd : Instruction::kTextEndOrLast);
      case U'[':
        return character_class();
      case U'(':
        return group();
      case U'\\':
        return escape();
      case U'*':
      case U'+':
      case U'?':
        --at_;
        fail("something before the quantifier");
      default:
        return literal(c);
    }
  }

  char32_t hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char32_t c = more() ? text_[at_] : U' ';
      const bool digit = c >= U'0' && c <= U'9';
      const char32_t low = c | 32U;
      if (!digit && (low < U'a' || low > U'f')) fail("hexadecimal digits after the escape");
      value = value << 4 | (digit ? c - U'0' : low - U'a' + 10);
    }
    return value;
  }

  // After the backslash: a character that stands for itself or another.
  char32_t escaped_character(char32_t c) {
    switch (c) {
      case U'n':
        return U'\n';
      case U't':
        return U'\t';
      case U'r':
        return U'\r';
      case U'f':
        return U'\f';
      case U'v':
        return U'\v';
      case U'a':
        return U'\a';
      case U'0':
        return U'\0';
      case U'x':
        return hex(2);
      case U'u':
        return hex(4);
      case U'U':
        return hex(8);
      default:
        break;
    }
    if ((c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'))
      fail("an escape that Python's re and hone know");
    return c;
  }

  static bool is_class(char32_t c) {
    return std::u32string_view(U"dDwWsS").find(c) != std::u32string_view::npos;
  }

  Tree escape() {
    if (!more()) fail("a character after the backslash");
    const char32_t c = text_[at_++];
    if (is_class(c)) return set({.classes = std::string(1, static_cast<char>(c)), .ascii = {}});
    if (c == U'b') return single(Instruction::kWord);
    if (c == U'B') return single(Instruction::kNotWord);
    if (c == U'A') return single(Instruction::kTextStart);
    if (c == U'Z') return single(Instruction::kTextEnd);
    if (c >= U'1' && c <= U'9') {
      int index = static_cast<int>(c - U'0');
      if (more() && text_[at_] >= U'0' && text_[at_] <= U'9')
        index = index * 10 + static_cast<int>(text_[at_++] - U'0');
      if (index >= out_.slots / 2) fail("a group " + std::to_string(index));
      return reference(index);
    }
    return literal(escaped_character(c));
  }

  Tree reference(int group) {
    Tree out = single(Instruction::kBackReference);
    out->one.x = group;
    out->one.ignore_case = flags_.ignore_case;
    return out;
  }

  char32_t class_character() {
    const char32_t c = text_[at_++];
    if (c != U'\\') return c;
    if (!more()) fail("a character after the backslash");
    const char32_t escaped = text_[at_++];
    return escaped == U'b' ? U'\b' : escaped_character(escaped);
  }

  Tree character_class() {
    Pattern::Set out;
    out.negative = take(U'^');
    for (bool first = true; first || !next_is(U']'); first = false) {
      if (!more()) fail("']' after the class");
      if (next_is(U'\\') && at_ + 1 < text_.size() && is_class(text_[at_ + 1])) {
        out.classes += static_cast<char>(text_[at_ + 1]);
        at_ += 2;
        continue;
      }
      const char32_t low = class_character();
      char32_t high = low;
      if (next_is(U'-') && at_ + 1 < text_.size() && text_[at_ + 1] != U']') {
        ++at_;
        high = class_character();
        if (high < low) fail("a range that goes up");
      }
      out.ranges.emplace_back(low, high);
    }
    ++at_;
    return set(std::move(out));
  }

  std::string name(char32_t end) {
    const std::size_t start = at_;
    while (more() && !next_is(end)) ++at_;
    const std::string out = to_utf8(std::u32string_view(text_).substr(start, at_ - start));
    if (out.empty() || !take(end)) fail("a group's name");
    return out;
  }

  Tree close(Tree out) {
    out->parts.push_back(alternatives());
    if (!take(U')')) fail("')'");
    return out;
  }

  Tree look(bool behind, bool negative) {
    Tree out = make(Node::kLookAround);
    out->one.negative = negative;
    out->one.behind = behind ? 0 : -1;
    return close(std::move(out));
  }

  Tree captured() {
    Tree out = make(Node::kGroup);
    out->group = out_.slots / 2;
    out_.slots += 2;
    return close(std::move(out));
  }

  Tree group() {
    if (!take(U'?')) return captured();
    if (take(U':')) return close(make(Node::kGroup));
    if (take(U'=')) return look(false, false);
    if (take(U'!')) return look(false, true);
    if (take(U"<=")) return look(true, false);
    if (take(U"<!")) return look(true, true);
    if (take(U"P<")) {
      const std::string called = name(U'>');
      if (!out_.names.emplace(called, out_.slots / 2).second)
        fail("another name than " + called + ", which is taken");
      return captured();
    }
    if (take(U"P=")) {
      const auto found = out_.names.find(name(U')'));
      if (found == out_.names.end()) fail("the name of a group before");
      return reference(found->second);
    }
    const Flags outside = flags_;
    if (read_flags(flags_) && take(U':')) {
      Tree out = close(make(Node::kGroup));
      flags_ = outside;
      return out;
    }
    fail("(?:, (?=, (?!, (?<=, (?<!, (?P<name>, (?P=name) or (?ims:");
  }

  const std::u32string& text_;
  Flags flags_;
  const std::string& where_;
  CompiledPattern& out_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

// The number of characters that a tree takes, or kVaries; fills in the width of every node below.
int measure(Node& node) {
  constexpr std::int64_t kMost = 1'000'000'000;  // longer than any text
  std::int64_t out = 0;
  for (const auto& part : node.parts) measure(*part);
  switch (node.kind) {
    case Node::kOne:
      out = node.one.op <= Instruction::kSet ? 1 : node.one.op == Instruction::kBackReference ? kVaries : 0;
      break;
    case Node::kLookAround:
      break;
    case Node::kGroup:
      out = node.parts[0]->width;
      break;
    case Node::kRepeat:
      out = node.least == node.most && node.parts[0]->width >= 0
                ? std::int64_t{node.parts[0]->width} * node.least
                : kVaries;
      break;
    case Node::kSequence:
      for (const auto& part : node.parts)
        out = out < 0 || part->width < 0 ? kVaries : std::min(out + part->width, kMost);
      break;
    case Node::kAlternatives:
      out = node.parts[0]->width;
      for (const auto& part : node.parts)
        if (part->width != out) out = kVaries;
      break;
  }
  return node.width = static_cast<int>(std::min(out, kMost));
}

class Emitter {
 public:
  Emitter(CompiledPattern& out, const Parser& parser) : out_(out), parser_(parser) {}

  void emit(const Node& node) {
    // Nodes are counted as well: (?:){99999} in itself writes nothing, often.
    if (out_.program.size() > Pattern::kMaxProgram || ++nodes_ > 4 * Pattern::kMaxProgram)
      parser_.fail("a pattern of at most " + std::to_string(Pattern::kMaxProgram) +
                   " steps (its repetitions are too long)");
    switch (node.kind) {
      case Node::kOne:
        out_.program.push_back(node.one);
        return;
      case Node::kSequence:
        for (const auto& part : node.parts) emit(*part);
        return;
      case Node::kAlternatives:
        return alternatives(node);
      case Node::kRepeat:
        return repeat(node);
      case Node::kGroup:
        return group(node);
      case Node::kLookAround:
        return look(node);
    }
  }

  std::size_t add(Instruction::Op op, int x = 0, int y = 0) {
    Instruction one{};
    one.op = op;
    one.x = x;
    one.y = y;
    out_.program.push_back(one);
    return out_.program.size() - 1;
  }

 private:
  int here() const { return static_cast<int>(out_.program.size()); }
  Instruction& at(std::size_t index) { return out_.program[index]; }

  void alternatives(const Node& node) {
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i + 1 < node.parts.size(); ++i) {
      const std::size_t split = add(Instruction::kSplit, here() + 1);
      emit(*node.parts[i]);
      ends.push_back(add(Instruction::kJump));
      at(split).y = here();
    }
    emit(*node.parts.back());
    for (const std::size_t end : ends) at(end).x = here();
  }

  // A split whose first way is the body (greedy) or what follows (lazy); the other way is set later.
  std::size_t choice(bool lazy) {
    const std::size_t split = add(Instruction::kSplit);
    (lazy ? at(split).y : at(split).x) = here();
    return split;
  }
  void leave(std::size_t split, bool lazy) { (lazy ? at(split).x : at(split).y) = here(); }

  void repeat(const Node& node) {
    const Node& body = *node.parts[0];
    for (int i = 0; i < node.least; ++i) emit(body);
    if (node.most == kNoLimit) {
      const std::size_t split = choice(node.lazy);
      const bool may_be_empty = body.width <= 0;
      const int mark = out_.marks;
      if (may_be_empty) add(Instruction::kMark, mark), ++out_.marks;
      emit(body);
      if (may_be_empty) add(Instruction::kProgress, mark);
      add(Instruction::kJump, static_cast<int>(split));
      leave(split, node.lazy);
      return;
    }
    std::vector<std::size_t> splits;
    for (int i = node.least; i < node.most; ++i) {
      splits.push_back(choice(node.lazy));
      emit(body);
    }
    for (const std::size_t split : splits) leave(split, node.lazy);
  }

  void group(const Node& node) {
    if (node.group > 0) add(Instruction::kSave, 2 * node.group);
    emit(*node.parts[0]);
    if (node.group > 0) add(Instruction::kSave, 2 * node.group + 1);
  }

  void look(const Node& node) {
    const std::size_t start = add(Instruction::kLook);
    at(start).negative = node.one.negative;
    if (node.one.behind >= 0) {
      at(start).behind = node.parts[0]->width;
      if (at(start).behind < 0) parser_.fail("a look-behind of fixed width");
    }
    emit(*node.parts[0]);
    add(Instruction::kAccept);
    at(start).x = here();
  }

  CompiledPattern& out_;
  const Parser& parser_;
  std::size_t nodes_ = 0;
};

}  // namespace

CompiledPattern compile_pattern(const std::u32string& text, Flags flags, const std::string& where) {
  CompiledPattern out;
  if (text.size() > Pattern::kMaxSource) {
    throw UserError(
        {.where = where,
         .expected = "a pattern of at most " + std::to_string(Pattern::kMaxSource) + " characters",
         .found = std::to_string(text.size()) + " characters: " + shown(text, 0),
         .fix = "write a shorter one"});
  }
  Parser parser(text, flags, where, out);
  const Tree tree = parser.parse();
  measure(*tree);
  Emitter emitter(out, parser);
  emitter.emit(*tree);
  emitter.add(Instruction::kAccept);
  for (Instruction& one : out.program)  // marks lie after the captures
    if (one.op == Instruction::kMark || one.op == Instruction::kProgress) one.x += out.slots;
  return out;
}

}  // namespace hone::base
