// What the host of tools sends is not trusted: mutations of valid answers are taken or refused with a UserError.
#include "base/rng.h"
#include "tools/pool_helpers.h"
#include "tools/worker/host_program.h"

namespace hone::tools {
namespace host_frames_test {

constexpr std::uint64_t kMutations = 4000;

const std::string kLoaded =
    R"({"tools": [{"name": "f", "schema": {"a": [1]}, "is_async": false}], "environments": {"e": {"class": "E", "tools": )"
    R"([{"name": "g", "schema": {}, "is_async": true}], "reward": true, "seed": false}}, "notes": ["é"]})";
const std::string kFault =
    R"({"fault": {"expected": "a", "found": "b", "cause": "", "fix": "c", "word": "t.py:f", "at": "f, argument a"}})";
const std::string kAnswer =
    R"({"id": 7, "text": "é", "failed": true, "reward": 1.5, "seconds": 0.25, "note": "n", "printed": "p"})";

std::string mutated(std::string text, std::uint64_t round) {
  const base::Stream random(43, base::Purpose::kDemoData, round);
  std::uint64_t at = 0;
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random.bits(at++) % n; };
  static const std::vector<std::string> kNasty{
      "\xFF\xFF", "18446744073709551616", "-1", "1e400", "[[[[[[", "null", "{}", "true", "[]", "\"\\ud800\""};
  for (std::size_t edits = 1 + below(3); edits > 0 && !text.empty(); --edits) {
    const std::size_t place = below(text.size());
    switch (below(4)) {
      case 0:
        text[place] = static_cast<char>(text[place] ^ (1 << below(8)));
        break;
      case 1:
        text.erase(place, 1 + below(12));
        break;
      case 2:
        text.insert(place, kNasty[below(kNasty.size())]);
        break;
      default: {  // a whole value by another one
        const std::size_t begin = text.find(": ", place), end = text.find_first_of(",}", begin);
        if (end != std::string::npos) text.replace(begin + 2, end - begin - 2, kNasty[below(kNasty.size())]);
      }
    }
  }
  return text;
}

TEST(HostFrames, AreRead) {
  const Loaded loaded = parse_loaded(kLoaded);
  EXPECT_EQ(names_of(loaded.environments.at("e").tools), (std::vector<std::string>{"f", "g"}));
  EXPECT_TRUE(loaded.environments.at("e").has_reward);
  const Loaded fault = parse_loaded(kFault);
  ASSERT_TRUE(fault.fault);
  EXPECT_EQ(fault.fault->fix, "c");
  EXPECT_EQ(fault.at, "f, argument a");
  const Answer answer = parse_answer(kAnswer);
  EXPECT_EQ(answer.done.ticket, 7U);
  EXPECT_EQ(answer.done.reward, 1.5);
  EXPECT_TRUE(answer.done.failed);
  expect_says(message_of([] { parse_answer(R"({"id": 7})"); }), {"host of tools", "no field 'text'"});
}

TEST(HostFramesFuzz, MutationsAreReadOrRefused) {
  std::size_t read = 0, refused = 0;
  for (std::uint64_t round = 0; round < kMutations; ++round) {
    try {
      if (round % 3 == 0) parse_loaded(mutated(kLoaded, round));
      if (round % 3 == 1) parse_loaded(mutated(kFault, round));
      if (round % 3 == 2) parse_answer(mutated(kAnswer, round));
      ++read;
    } catch (const base::UserError&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 100U);
  EXPECT_GT(refused, 1000U);
}

}  // namespace host_frames_test
}  // namespace hone::tools
