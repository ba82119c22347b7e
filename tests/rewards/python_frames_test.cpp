// What a worker sends is not trusted: deterministic mutations of valid answers are taken or refused with a
// UserError.
#include "base/rng.h"
#include "rewards/python/worker_frames.h"
#include "rewards/python_helpers.h"
#include "rewards/reward.h"

namespace hone::rewards {
namespace python_frames_test {

constexpr std::uint64_t kMutations = 4000;
constexpr std::size_t kSamples = 3;

const std::string kScores =
    R"({"rewards": [1.5, null, -2], "bad": [[1, "NaN"]], "extra": [["c", [1, "é", {"a": []}]]], "metrics": [["m", null]]})";
const std::string kRaised = R"({"raised": {"what": "E: x", "place": "r.py:1 in f", "trace": "..."}})";
const std::string kFault =
    R"({"fault": {"expected": "a", "found": "b", "cause": "", "fix": ""}, "function": 1})";
const std::string kLoaded =
    R"({"functions": [{"name": "f", "needed": ["answer"], "file": "r.py"}, {"name": "g", "needed": [], "file": ""}]})";

std::string mutated(std::string text, std::uint64_t round) {
  const base::Stream random(42, base::Purpose::kDemoData, round);
  std::uint64_t at = 0;
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random.bits(at++) % n; };
  static const std::vector<std::string> kNasty{"\xFF\xFF\xFF\xFF",
                                               "\xFF\xFF\xFF\x7F",
                                               "18446744073709551615",
                                               "-1",
                                               "1e400",
                                               "[[[[[[",
                                               "null",
                                               "{}",
                                               "[]",
                                               "\"\\ud800\""};
  for (std::size_t edits = 1 + below(3); edits > 0 && !text.empty(); --edits) {
    const std::size_t place = below(text.size());
    switch (below(5)) {
      case 0:
        text[place] = static_cast<char>(text[place] ^ (1 << below(8)));
        break;
      case 1:
        text.resize(place);
        break;
      case 2:
        text.insert(place, text.substr(place, below(30)));
        break;
      case 3:
        text.erase(place, below(16));
        break;
      default: {
        const std::string& nasty = kNasty[below(kNasty.size())];
        text.replace(place, nasty.size(), nasty);
      }
    }
  }
  return text;
}

void check(const ScoreReply& reply) {
  if (reply.raised || reply.fault) return;
  EXPECT_EQ(reply.rewards.size(), kSamples);
  for (const double value : reply.rewards) EXPECT_FALSE(std::isinf(value));
  for (const auto& [sample, why] : reply.bad)
    EXPECT_TRUE(sample < kSamples && is_none(reply.rewards[sample]));
  for (const auto& [column, values] : reply.extra) EXPECT_EQ(values.size(), kSamples);
}

TEST(PythonFrames, ValidAnswers) {
  const ScoreReply scores = parse_score_reply(kScores, kSamples);
  EXPECT_EQ(scores.rewards[0] + scores.rewards[2], -0.5);
  EXPECT_EQ(scores.bad, (std::vector<std::pair<std::size_t, std::string>>{{1, "NaN"}}));
  EXPECT_EQ(scores.extra[0].second[1], "é");
  EXPECT_TRUE(is_none(scores.metrics[0].second));
  EXPECT_EQ(parse_score_reply(kRaised, kSamples).raised->place, "r.py:1 in f");
  EXPECT_EQ(parse_score_reply(kFault, kSamples).fault->found, "b");
  const LoadReply loaded = parse_load_reply(kLoaded, 2);
  EXPECT_EQ(loaded.functions[0].needed, std::vector<std::string>{"answer"});
  EXPECT_EQ(parse_load_reply(kFault, 2).function, 1U);
  for (const char* wrong : {"[1]", "{}", "1", R"({"functions": 3})", "\xFF"}) {
    EXPECT_THROW(parse_load_reply(wrong, 2), UserError) << wrong;
    EXPECT_THROW(parse_score_reply(wrong, 2), UserError) << wrong;
  }
  EXPECT_THROW(parse_load_reply(kLoaded, 3), UserError);
  EXPECT_THROW(parse_load_reply(kFault, 1), UserError);
  EXPECT_THROW(parse_score_reply(kScores, 2), UserError);
}

TEST(PythonFrames, FuzzedAnswers) {
  int taken = 0;
  int refused = 0;
  for (std::uint64_t round = 0; round < kMutations; ++round) {
    for (const std::string* valid : {&kScores, &kRaised, &kFault, &kLoaded}) {
      const std::string text = mutated(*valid, round);
      for (const bool load : {false, true}) {
        try {
          if (load) {
            const LoadReply reply = parse_load_reply(text, 2);
            EXPECT_TRUE(reply.fault || reply.functions.size() == 2);
          } else {
            check(parse_score_reply(text, kSamples));
          }
          ++taken;
        } catch (const UserError&) {
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(taken, 500);
  EXPECT_GT(refused, 5000);
}

TEST(PythonFrames, FramesComeWholeHoweverTheyAreCut) {
  const std::vector<std::string> payloads{"", "a", std::string(70000, 'b'), std::string("\0\1", 2), "last"};
  std::string stream;
  for (const std::string& payload : payloads) stream += python::to_frame(payload, "test");
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}, std::size_t{4096}, stream.size()}) {
    python::FrameReader reader("test");
    std::vector<std::string> found;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      reader.feed(std::string_view(stream).substr(at, step));
      while (auto frame = reader.next()) found.push_back(*frame);
    }
    EXPECT_EQ(found, payloads) << step;
  }
}

TEST(PythonFrames, FuzzedStreams) {
  const std::string stream =
      python::to_frame(kScores, "test") + python::to_frame(kRaised, "test") + python::to_frame("", "test");
  int refused = 0;
  for (std::uint64_t round = 0; round < kMutations; ++round) {
    const std::string bytes = mutated(stream, round);
    python::FrameReader reader("test");
    std::size_t given = 0;
    try {
      for (std::size_t at = 0; at < bytes.size(); at += 50) {
        reader.feed(std::string_view(bytes).substr(at, 50));
        while (auto frame = reader.next()) given += frame->size() + 4;
      }
    } catch (const UserError&) {
      ++refused;
    }
    EXPECT_LE(given, bytes.size());
  }
  EXPECT_GT(refused, 50);
}

TEST(PythonFrames, TooLongIsRefusedBeforeItComes) {
  python::FrameReader reader("test");
  reader.feed(std::string_view("\x01\x00\x00\x04", 4));  // 64 MiB and one byte
  EXPECT_THROW(reader.next(), UserError);
}

}  // namespace python_frames_test
}  // namespace hone::rewards
