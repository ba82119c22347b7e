// A regular expression read a character at a time: whether what was read so far can still become a whole match. The
// sets of instructions that a Pattern's ways stand at are the states of an automaton, made when they are reached.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/strings/pattern.h"

namespace hone::base {

class PatternStates {
 public:
  using State = int;
  static constexpr State kDead = -1;  // no match begins so
  static constexpr std::size_t kMaxStates = 100'000;

  // Matches the whole text, as re.fullmatch does. UserError at `where` for what a state cannot know:
  // look-around, back-references, word and line boundaries (^ and $ of the text are known).
  PatternStates(std::string_view utf8, const std::string& where, std::size_t most_states = kMaxStates);

  State start() const { return 0; }
  std::size_t size() const { return known_.size(); }  // states so far

  // After one more character. Throws PatternTooSlow beyond `most_states`.
  State next(State state, char32_t c);
  bool accepts(State state) const;  // the text so far is a whole match
  // Returns whether some character from `first` to `last` leads on.
  bool goes_on(State state, char32_t first, char32_t last) const;

 private:
  struct Known {
    std::vector<int> at;  // instructions that take a character, ascending
    bool accepts = false;
    std::array<State, 128> ascii{};  // kUnknown until asked for
    std::map<char32_t, State> others;
  };
  static constexpr State kUnknown = -2;
  bool takes(int pc, char32_t c) const;
  bool takes_some(int pc, char32_t first, char32_t last) const;
  State state_of(const std::vector<int>& ways, bool at_start);
  State step(State state, char32_t c);

  std::size_t most_states_;
  std::vector<Pattern::Instruction> code_;
  std::vector<Pattern::Set> sets_;
  std::vector<Known> known_;
  std::map<std::pair<std::vector<int>, bool>, State> ids_;
};

}  // namespace hone::base
