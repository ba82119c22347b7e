#include "base/strings/pattern_states.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/strings/code_points.h"

namespace hone::base {
namespace pattern_states_test {

PatternStates::State after(PatternStates& states, const std::string& text) {
  PatternStates::State state = states.start();
  for (const char32_t c : to_code_points(text)) state = states.next(state, c);
  return state;
}

// Against re.fullmatch as Pattern has it, over every text of a small alphabet; a text that is dead begins no match.
TEST(PatternStates, AcceptWhatThePatternMatches) {
  std::vector<std::string> texts = {""};
  for (std::size_t i = 0; texts[i].size() < 5; ++i) {
    for (const char c : {'a', 'b', '1', 'A'}) texts.push_back(texts[i] + c);
  }
  for (const char* expression : {"a|ab|abb1", "(a|b)*1?", "a{2,3}b+?", "(a*)*b", "^a.$", "[^a]+", "(?i:ab)1",
                                 "\\d\\w*", "(ab|a)(b|1)?", "", "a?$", "(a|^b)+", "((a|b)1){1,2}"}) {
    const Pattern pattern(expression);
    PatternStates states(expression, "here");
    for (const std::string& text : texts) {
      long steps = Pattern::kMaxSteps;
      const PatternStates::State state = after(states, text);
      const bool matches = pattern.full_match(to_code_points(text), steps);
      EXPECT_EQ(states.accepts(state), matches) << expression << " on '" << text << "'";
      if (state != PatternStates::kDead) continue;
      for (const std::string& longer : texts) {
        steps = Pattern::kMaxSteps;
        if (longer.starts_with(text)) {
          EXPECT_FALSE(pattern.full_match(to_code_points(longer), steps)) << expression << " on " << longer;
        }
      }
    }
  }
}

TEST(PatternStates, SomeCharacterOfARange) {
  PatternStates states("[\u00e4\u8a9e]x", "here");
  EXPECT_TRUE(states.goes_on(states.start(), 0xC0, 0xFF));
  EXPECT_FALSE(states.goes_on(states.start(), 0x100, 0x7FF));
  EXPECT_TRUE(states.goes_on(states.start(), 0x8000, 0x8FFF));
  EXPECT_EQ(states.next(states.start(), U'x'), PatternStates::kDead);
  EXPECT_TRUE(states.accepts(states.next(states.next(states.start(), 0x8A9E), U'x')));
}

TEST(PatternStates, RefusesWhatNeedsMoreThanWhatWasRead) {
  for (const char* expression : {"a(?=b)", "(?<!a)b", "(a)\\1", "a\\b", "(", "(?m)^a"}) {
    EXPECT_THROW(PatternStates(expression, "here"), UserError) << expression;
  }
}

}  // namespace pattern_states_test
}  // namespace hone::base
