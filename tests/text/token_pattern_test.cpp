#include "text/token_pattern.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "text/helpers.h"

namespace hone::text {
namespace token_pattern_test {

using Ids = std::vector<std::int32_t>;

Tokenizer tiny() {
  return Tokenizer::from_folder(base::fs::path(HONE_FIXTURES) / "text" / "tiny");
}

TokenPattern pattern_of(const Tokenizer& tokenizer, const std::string& expression) {
  return {tokenizer, expression, "vllm_structured_outputs_regex"};
}

// The tokens that may follow, stop tokens among them.
Ids allowed(const Tokenizer& tokenizer, const TokenPattern& pattern, const Ids& ids) {
  std::vector<float> scores(static_cast<std::size_t>(tokenizer.vocab_size()), 1.0F);
  const std::vector<std::int64_t> stops = {*tokenizer.eos_id()};
  pattern.constrain(ids, stops, scores);
  Ids out;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isfinite(scores[i])) out.push_back(static_cast<std::int32_t>(i));
  }
  return out;
}

// Of a finite language: what its words begin with, and the words.
TEST(TokenPattern, AllowsWhatSomeWordBeginsWith) {
  const Tokenizer tokenizer = tiny();
  const std::vector<std::string> words = {"the answer", "the", "there is 1", "no", "not now"};
  const TokenPattern pattern = pattern_of(tokenizer, "the answer|the|there is 1|no(t now)?");
  const std::int32_t stop = *tokenizer.eos_id();
  std::vector<std::string> texts;
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    texts.push_back(tokenizer.decode(Ids{id}, true));
  std::vector<Ids> open = {{}};
  std::size_t ended = 0, seen = 0;
  while (!open.empty() && seen < 2000) {
    const Ids ids = open.back();
    open.pop_back();
    ++seen;
    const std::string text = tokenizer.decode(ids, false);
    Ids expected;
    for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
      const std::string& more = texts[static_cast<std::size_t>(id)];
      const bool begins = !more.empty() &&
                          std::any_of(words.begin(), words.end(),
                                      [&](const std::string& word) { return word.starts_with(text + more); });
      const bool ends = id == stop && std::find(words.begin(), words.end(), text) != words.end();
      if (begins || ends) expected.push_back(id);
    }
    const Ids found = allowed(tokenizer, pattern, ids);
    ASSERT_EQ(found, expected) << '\'' << text << '\'';
    for (const std::int32_t id : found) {
      if (id == stop) {
        ++ended;
        continue;
      }
      open.push_back(ids);
      open.back().push_back(id);
    }
  }
  EXPECT_GE(ended, words.size());
}

TEST(TokenPattern, AnyWalkEndsInAMatch) {
  const Tokenizer tokenizer = tiny();
  const std::string expression = "[A-Z][a-z]{2,9}, (one|two): [0-9]{1,3}(\\.[0-9]+)?!";
  const TokenPattern pattern = pattern_of(tokenizer, expression);
  const std::regex whole(expression);
  std::uint32_t random = 1;
  for (int walk = 0; walk < 50; ++walk) {
    Ids ids;
    while (ids.size() < 200) {
      const Ids next = allowed(tokenizer, pattern, ids);
      ASSERT_FALSE(next.empty());
      random = random * 1664525U + 1013904223U;
      const std::int32_t id = next[(random >> 8U) % next.size()];
      if (id == *tokenizer.eos_id()) break;
      ids.push_back(id);
    }
    const std::string text = tokenizer.decode(ids, false);
    EXPECT_TRUE(std::regex_match(text, whole)) << text;
  }
}

// Letters of several bytes may be several tokens; a text never ends within one.
TEST(TokenPattern, BytesOfALetter) {
  const Tokenizer tokenizer = tiny();
  const TokenPattern pattern = pattern_of(tokenizer, "[äöü語]{2}");
  for (const char* word : {"äö", "語ü"}) {
    const Ids ids = tokenizer.encode(word, false).ids;
    for (std::size_t i = 0; i <= ids.size(); ++i) {
      const Ids next =
          allowed(tokenizer, pattern, Ids(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i)));
      const std::int32_t follows = i < ids.size() ? ids[i] : *tokenizer.eos_id();
      EXPECT_EQ(std::count(next.begin(), next.end(), follows), 1) << word << " at " << i;
      EXPECT_EQ(std::count(next.begin(), next.end(), *tokenizer.eos_id()), i < ids.size() ? 0 : 1) << word;
    }
  }
}

// GPT-2's bytes, and what the decoder makes of them.
TEST(TokenPattern, TheBytesOfATextAreThoseOfItsTokens) {
  const Tokenizer tokenizer = tiny();
  const std::vector<std::string> bytes = token_bytes(tokenizer);
  for (const char* text : {"the answer is 1.", "\n\ta  b", "Ärger über 語", "<tag> & \"quotes\""}) {
    std::string joined;
    for (const std::int32_t id : tokenizer.encode(text, false).ids)
      joined += bytes[static_cast<std::size_t>(id)];
    EXPECT_EQ(joined, text);
  }
  EXPECT_EQ(bytes[static_cast<std::size_t>(*tokenizer.eos_id())], "");
}

TEST(TokenPattern, WhereNothingMayFollowTheTextEnds) {
  const Tokenizer tokenizer = tiny();
  const Ids stop = {*tokenizer.eos_id()};
  const TokenPattern pattern = pattern_of(tokenizer, "the");
  EXPECT_EQ(allowed(tokenizer, pattern, tokenizer.encode("the", false).ids), stop);
  EXPECT_EQ(allowed(tokenizer, pattern, tokenizer.encode("no", false).ids), stop) << "not a beginning at all";
}

TEST(TokenPattern, ScoresThatMayFollowStay) {
  const Tokenizer tokenizer = tiny();
  const TokenPattern pattern = pattern_of(tokenizer, ".*");
  std::vector<float> scores(static_cast<std::size_t>(tokenizer.vocab_size()) + 10);  // a padded vocabulary
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = static_cast<float>(i);
  const std::vector<std::int64_t> stops = {*tokenizer.eos_id()};
  pattern.constrain(Ids{}, stops, scores);
  const auto letter = static_cast<std::size_t>(tokenizer.encode("a", false).ids.front());
  EXPECT_EQ(scores[letter], static_cast<float>(letter));
  EXPECT_EQ(scores[static_cast<std::size_t>(stops[0])], static_cast<float>(stops[0]));
  EXPECT_TRUE(std::isinf(scores.back()));
}

TEST(TokenPattern, MistakesNameTheOption) {
  const Tokenizer tokenizer = tiny();
  for (const char* expression : {"(", "(?=a)b", "(a)\\1", "a\\b", "(\\w{1000}){1000}"}) {
    const std::string message = user_error([&] { pattern_of(tokenizer, expression); });
    EXPECT_NE(message.find("vllm_structured_outputs_regex"), std::string::npos) << expression;
  }
}

}  // namespace token_pattern_test
}  // namespace hone::text
