// A regular expression, and what it finds in a text: the first line is the expression.
#include "base/strings/pattern.h"
#include "fuzz/targets/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hone;
  return fuzz::one_input(data, size, [](std::string_view bytes) {
    const auto [expression, rest] = fuzz::first_line(bytes);
    const base::Pattern pattern(expression);
    const std::u32string text = base::to_code_points(rest);
    try {
      long steps = base::Pattern::kMaxSteps;  // of all calls together
      pattern.full_match(text, steps);
      pattern.for_each_match(text, steps, [&text](const base::Match& match) {
        if (match.end() < match.begin() || match.end() > text.size())
          fuzz::finding("a match outside the text");
      });
    } catch (const base::PatternTooSlow&) {  // a limit, which the caller tells
    }
  });
}
