// Patterns that somebody else wrote: no input may take long, overflow the stack or change what is found.
#include <gtest/gtest.h>

#include <ctime>

#include "base/error.h"
#include "base/strings/pattern.h"
#include "fuzz/mutate.h"

namespace hone::base {
namespace pattern_fuzz_test {

using fuzz::Random;
using Memory = Pattern::Memory;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string times(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// ---- patterns by grammar, over a and b, so that they often match and often nearly

class Writer {
 public:
  explicit Writer(Random& random) : random_(random) {}

  std::string pattern() { return alternatives(3); }

 private:
  std::string alternatives(int depth) {
    std::string out = sequence(depth);
    while (random_.below(4) == 0) out += "|" + sequence(depth);
    return out;
  }

  std::string sequence(int depth) {
    std::string out;
    for (std::size_t n = random_.below(4); n > 0; --n) out += atom(depth) + quantifier();
    return out;
  }

  std::string quantifier() {
    static const std::vector<std::string> all = {"*",  "+",   "?",     "*?",     "+?",
                                                 "??", "{2}", "{1,2}", "{0,2}?", "{,1}"};
    return random_.below(2) == 0 ? "" : random_.one_of(all);
  }

  std::string atom(int depth) {
    static const std::vector<std::string> plain = {"a", "b", ".", "[ab]", "[^a]", "\\w", "(?:)", "\\b", "a"};
    static const std::vector<std::string> fixed = {"a", "b", ".", "ab", "a|b", ""};
    if (depth == 0) return random_.one_of(plain);
    switch (random_.below(10)) {
      case 0:
      case 1:
        return "(" + alternatives(depth - 1) + ")";
      case 2:
      case 3:
        return "(?:" + alternatives(depth - 1) + ")";
      case 4:
        return (random_.below(2) == 0 ? "(?=" : "(?!") + alternatives(depth - 1) + ")";
      case 5:
        return (random_.below(2) == 0 ? "(?<=" : "(?<!") + random_.one_of(fixed) + ")";
      default:
        return random_.one_of(plain);
    }
  }

  Random& random_;
};

std::string spans(const Pattern& pattern, const std::u32string& text) {
  std::string out;
  long steps = 20'000;  // without memory some take 2^n
  pattern.for_each_match(text, steps, [&out](const Match& one) {
    for (const auto at : one.at) out += std::to_string(at) + " ";
    out += "; ";
  });
  return out + (pattern.full_match(text, steps) ? "whole" : "");
}

// What is remembered about failures changes nothing but the time.
void expect_same_with_and_without_memory(const std::string& source, Random& random) {
  Pattern remembers(source);
  Pattern forgets(source);
  remembers.keep_failures(Memory::kAlways);
  forgets.keep_failures(Memory::kNever);
  for (int i = 0; i < 4; ++i) {
    std::u32string text;
    for (std::size_t n = random.below(10); n > 0; --n) text += U"aab "[random.below(4)];
    try {
      const std::string expected = spans(forgets, text);
      EXPECT_EQ(spans(remembers, text), expected) << source << " in " << to_utf8(text);
    } catch (const PatternTooSlow&) {
    }
  }
}

void expect_memory_changes_nothing(double most_seconds) {
  const auto take = [&](const std::string& seed) {
    Random random(std::strtoull(seed.c_str(), nullptr, 10));
    for (int i = 0; i < 100; ++i) expect_same_with_and_without_memory(Writer(random).pattern(), random);
  };
  const auto count = fuzz::run(
      most_seconds, {"0"},
      [](const std::string&, Random& random) { return std::to_string(random.bits() >> 1U); }, take);
  EXPECT_EQ(count.refused, 0U);
}

TEST(PatternFuzz, MemoryChangesNothing) {
  expect_memory_changes_nothing(fuzz::seconds(1));
}

TEST(PatternFuzz, SlowMemoryChangesNothing) {
  expect_memory_changes_nothing(fuzz::seconds(60));
}

// ---- hostile patterns

// The first ones took the program down, or never ended, with std::regex or before the limits.
std::vector<std::string> hostile_patterns() {
  return {times("(", 20'000) + "a" + times(")", 20'000),
          times("(", 20'000),
          times("(?:", 150) + "a" + times(")*", 150),
          times("(?=", 190) + "a" + times(")", 190),
          times("(?<=", 190) + "a" + times(")", 190),
          "(a+)+$",
          "(a*)*b",
          "(a|a)*b",
          "(a|aa)+$",
          "(\\w+\\.?)+x",
          "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)x",
          times("a?", 5000) + times("a", 5000),
          times("(a?)", 5000) + "$",
          "(a|a)*\\1b",
          "(a*)*\\1\\1\\1b",
          "(.+)\\1+$",
          "(?:(?=(a*))\\1)*b",
          "(?:){99999}",
          "((?:){99999}){99999}",
          "(((?:a{99999}){99999}){99999}){99999}",
          "((a{100}){100}){100}",
          "(?<=(?:a{99999}){99999})b",
          "(?:(?:x{0}){0})*",
          "[" + times("a-z\xC3\xA9-\xE2\x82\xAC", 8000) + "]*x",
          times("ab|", 20'000) + "c",
          times("|", 60'000),
          times("()", 20'000),
          times("(?P<a>", 50),
          times("(?i:", 150) + times(")", 150),
          times("a", 65'537),
          times("\\b", 30'000) + "x",
          times(".*?", 5000) + "x",
          "(?:a|(?=a)|(?!b)|(?<=a))*x",
          "((((((a*)*)*)*)*)*)*b",
          times("(a*", 60) + times(")*", 60) + "b",
          "[\\",
          "(?P<",
          "a{",
          "a{1,",
          "\\x",
          "(?",
          "\xFF\xFE(",
          "."};
}

void expect_bounded(const std::string& source, std::size_t length) {
  const std::u32string all_a(length, U'a');
  std::u32string mixed;
  for (std::size_t i = 0; i < length; ++i) mixed += U"a.b x"[i * i % 5];
  const double start = cpu_seconds();
  Pattern pattern(source, {.dot_all = true}, "test");
  for (const auto& text : {all_a + U"!", mixed}) {
    try {
      pattern.find_all(text);
      long steps = Pattern::kMaxSteps;
      pattern.full_match(text, steps);
    } catch (const PatternTooSlow&) {
    }
  }
  // Four budgets of about 0.2 s; sanitizers and a busy machine take ten times as long.
  EXPECT_LT(cpu_seconds() - start, 10.0) << source.substr(0, 100);
}

void fuzz_hostile_patterns(double most_seconds, std::size_t length) {
  const auto mutate = [](const std::string& text, Random& random) {
    std::string out = random.below(2) == 0 ? text : Writer(random).pattern();
    return fuzz::mutated_bytes(out, random);
  };
  fuzz::run(most_seconds, hostile_patterns(), mutate,
            [length](const std::string& source) { expect_bounded(source, length); });
}

TEST(PatternFuzz, HostilePatterns) {
  fuzz_hostile_patterns(fuzz::seconds(2), 100);
}

TEST(PatternFuzz, SlowHostilePatterns) {
  fuzz_hostile_patterns(fuzz::seconds(60), 20'000);
}

}  // namespace pattern_fuzz_test
}  // namespace hone::base
