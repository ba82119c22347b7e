#include "base/strings/pattern_states.h"

#include <algorithm>

#include "base/error.h"
#include "base/strings/code_points.h"
#include "base/strings/pattern_parser.h"

namespace hone::base {
namespace {

using Instruction = Pattern::Instruction;

bool is_stepwise(Instruction::Op op) {
  switch (op) {
    case Instruction::kLineStart:
    case Instruction::kLineEnd:
    case Instruction::kWord:
    case Instruction::kNotWord:
    case Instruction::kLook:
    case Instruction::kBackReference:
      return false;
    default:
      return true;
  }
}

char32_t lowered(char32_t c) {
  return c >= U'A' && c <= U'Z' ? c + 32 : c;
}

}  // namespace

PatternStates::PatternStates(std::string_view utf8, const std::string& where, std::size_t most_states)
    : most_states_(most_states) {
  CompiledPattern compiled = compile_pattern(to_code_points(utf8), {}, where);
  code_ = std::move(compiled.program);
  sets_ = std::move(compiled.sets);
  for (const Instruction& one : code_) {
    if (is_stepwise(one.op)) continue;
    throw UserError(
        {.where = where,
         .expected = "a regular expression without look-around, back-references and \\b",
         .found = std::string(utf8),
         .cause = "whether a text can still become a match must not depend on more than what was read",
         .fix = "write it without them"});
  }
  state_of({0}, /*at_start=*/true);
}

bool PatternStates::takes(int pc, char32_t c) const {
  const Instruction& one = code_[static_cast<std::size_t>(pc)];
  switch (one.op) {
    case Instruction::kChar:
      return c == one.c || (one.ignore_case && lowered(c) == lowered(one.c));
    case Instruction::kAny:
      return true;
    case Instruction::kAnyInLine:
      return c != U'\n';
    default:
      return sets_[static_cast<std::size_t>(one.x)].has(c);
  }
}

// What `ways` come to before the next character. Behind the text's end nothing is taken: there only a match counts.
PatternStates::State PatternStates::state_of(const std::vector<int>& ways, bool at_start) {
  Known made;
  made.ascii.fill(kUnknown);
  struct Way {
    int pc;
    bool ended;
  };
  std::vector<Way> open;
  for (const int pc : ways) open.push_back({pc, false});
  std::array<std::vector<bool>, 2> seen = {std::vector<bool>(code_.size()), std::vector<bool>(code_.size())};
  while (!open.empty()) {
    const auto [pc, ended] = open.back();
    open.pop_back();
    if (seen[ended ? 1 : 0][static_cast<std::size_t>(pc)]) continue;
    seen[ended ? 1 : 0][static_cast<std::size_t>(pc)] = true;
    const Instruction& one = code_[static_cast<std::size_t>(pc)];
    switch (one.op) {
      case Instruction::kAccept:
        made.accepts = true;
        break;
      case Instruction::kSplit:
        open.push_back({one.x, ended});
        open.push_back({one.y, ended});
        break;
      case Instruction::kJump:
        open.push_back({one.x, ended});
        break;
      case Instruction::kSave:
      case Instruction::kMark:
      case Instruction::kProgress:  // an empty turn of a loop adds nothing
        open.push_back({pc + 1, ended});
        break;
      case Instruction::kTextStart:
        if (at_start) open.push_back({pc + 1, ended});
        break;
      case Instruction::kTextEnd:
      case Instruction::kTextEndOrLast:
        open.push_back({pc + 1, true});
        break;
      default:
        if (!ended) made.at.push_back(pc);
    }
  }
  if (made.at.empty() && !made.accepts) return kDead;
  std::sort(made.at.begin(), made.at.end());
  const auto found = ids_.find(std::pair(made.at, made.accepts));
  if (found != ids_.end()) return found->second;
  // Before the state has a number, since others may go on with those that are kept.
  if (known_.size() >= most_states_) throw PatternTooSlow();
  const auto id = static_cast<State>(known_.size());
  ids_.emplace(std::pair(made.at, made.accepts), id);
  known_.push_back(std::move(made));
  return id;
}

PatternStates::State PatternStates::step(State state, char32_t c) {
  std::vector<int> ways;
  for (const int pc : known_[static_cast<std::size_t>(state)].at) {
    if (takes(pc, c)) ways.push_back(pc + 1);
  }
  return ways.empty() ? kDead : state_of(ways, /*at_start=*/false);
}

PatternStates::State PatternStates::next(State state, char32_t c) {
  if (state == kDead) return kDead;
  if (c < 128) {
    const State before = known_[static_cast<std::size_t>(state)].ascii[c];
    if (before != kUnknown) return before;
    const State after = step(state, c);  // which may move known_
    known_[static_cast<std::size_t>(state)].ascii[c] = after;
    return after;
  }
  const auto& others = known_[static_cast<std::size_t>(state)].others;
  if (const auto found = others.find(c); found != others.end()) return found->second;
  const State after = step(state, c);
  known_[static_cast<std::size_t>(state)].others.emplace(c, after);
  return after;
}

bool PatternStates::accepts(State state) const {
  return state != kDead && known_[static_cast<std::size_t>(state)].accepts;
}

bool PatternStates::takes_some(int pc, char32_t first, char32_t last) const {
  const Instruction& one = code_[static_cast<std::size_t>(pc)];
  if (one.op == Instruction::kChar && !one.ignore_case) return one.c >= first && one.c <= last;
  if (one.op == Instruction::kSet) {
    const Pattern::Set& set = sets_[static_cast<std::size_t>(one.x)];
    const auto overlaps = [&](const auto& range) { return range.first <= last && range.second >= first; };
    if (!set.negative && !set.ignore_case && set.classes.empty())
      return std::any_of(set.ranges.begin(), set.ranges.end(), overlaps);
  }
  for (char32_t c = first; c <= last; ++c) {
    if ((c < 0xD800 || c > 0xDFFF) && takes(pc, c)) return true;  // those between are no characters
  }
  return false;
}

bool PatternStates::goes_on(State state, char32_t first, char32_t last) const {
  if (state == kDead) return false;
  const std::vector<int>& at = known_[static_cast<std::size_t>(state)].at;
  return std::any_of(at.begin(), at.end(), [&](int pc) { return takes_some(pc, first, last); });
}

}  // namespace hone::base
