// Turns of every family against TRL's parse_response (tests/fixtures/tools/responses.json).
#include "tools/response_parser.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/error.h"
#include "tools/families.h"
#include "tools/turn_helpers.h"

namespace hone::tools {
namespace response_parser_test {

using base::Json;

// The recorder's names of response templates, which are TRL's.
const Family& family(const std::string& name) {
  static const std::map<std::string, std::string> names = {
      {"qwen3", "Qwen3"},    {"qwen3_5", "Qwen3.5"}, {"glm4moe", "GLM-4 MoE"},     {"llama3", "Llama 3"},
      {"gptoss", "gpt-oss"}, {"lfm2_2_5", "LFM2"},   {"nemotron_3", "Nemotron 3"}, {"gemma4", "Gemma 4"}};
  for (const Family& each : families())
    if (each.name == names.at(name)) return each;
  throw std::out_of_range(name);
}

ResponseParser parser_of(const Json& recording) {
  return ResponseParser::from_json(family(recording["family"].get<std::string>()).response_template, "family",
                                   recording["eos"].get<std::string>());
}

std::string plain_of(const text::Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.decode(tokenizer.encode(text, false).ids, true);
}

TEST(ResponseParser, ReadsTurnsAsTrlDoes) {
  const Json all = recorded("responses.json");
  std::size_t turns = 0;
  for (const auto& [name, recording] : all["templates"].items()) {
    const ResponseParser parser = parser_of(recording);
    const text::Tokenizer tokenizer = bytes_tokenizer(recording["eos"].get<std::string>());
    for (const Json& turn : recording["turns"]) {
      const auto prompt = turn["prompt"].get<std::string>(), text = turn["text"].get<std::string>();
      const std::string plain = plain_of(tokenizer, text);
      const Turn typed = parser.parse(prompt, text, plain, all["tools"]);
      EXPECT_EQ(base::dump_python_json(typed.message), base::dump_python_json(turn["message"]))
          << name << ", " << turn["name"] << ": " << text;
      const Json& untyped = turn.contains("untyped") ? turn["untyped"] : turn["message"];
      EXPECT_EQ(base::dump_python_json(parser.parse(prompt, text, plain, nullptr).message),
                base::dump_python_json(untyped))
          << name << ", " << turn["name"] << " without tools: " << text;
      const Json calls = turn["message"].value("tool_calls", Json::array());
      ASSERT_EQ(typed.calls.size(), calls.size()) << name << ", " << turn["name"];
      for (std::size_t i = 0; i < calls.size(); ++i) {
        EXPECT_EQ(typed.calls[i].name, calls[i]["function"]["name"].get<std::string>());
        EXPECT_EQ(base::dump_python_json(typed.calls[i].arguments),
                  base::dump_python_json(calls[i]["function"]["arguments"]));
      }
      ++turns;
    }
  }
  EXPECT_GT(turns, 300U);
}

TEST(ResponseParser, ReadsEveryPrefixOfACallAsTrlDoes) {
  const Json all = recorded("responses.json");
  std::size_t prefixes = 0;
  for (const auto& [name, recording] : all["templates"].items()) {
    if (!recording.contains("prefixes")) continue;
    const ResponseParser parser = parser_of(recording);
    const text::Tokenizer tokenizer = bytes_tokenizer(recording["eos"].get<std::string>());
    const auto prompt = recording["prefixes"]["prompt"].get<std::string>();
    const std::vector<std::int32_t> ids =
        tokenizer.encode(recording["prefixes"]["text"].get<std::string>(), false).ids;
    std::istringstream hashes(recording["prefixes"]["hashes"].get<std::string>());
    std::string hash;
    std::size_t end = 0;
    while (hashes >> hash) {
      const std::span<const std::int32_t> part(ids.data(), ++end);
      const std::string text = tokenizer.decode(part, false);
      const Turn turn = parser.parse(prompt, text, tokenizer.decode(part, true), all["tools"]);
      EXPECT_EQ(hash32(base::dump_python_json(turn.message)), hash) << name << ": " << text << "\n"
                                                                    << base::dump_python_json(turn.message);
      ++prefixes;
    }
    EXPECT_EQ(end, ids.size()) << name;
  }
  EXPECT_GT(prefixes, 500U);
}

TEST(ResponseParser, FindsTheFamilyOfTrlsTemplatesByTheirText) {
  const Json all = recorded("responses.json");
  std::size_t found = 0;
  for (const auto& [name, recording] : all["templates"].items()) {
    const std::optional<std::string> source = trl_template(name);
    if (!source) continue;
    const text::Tokenizer tokenizer = bytes_tokenizer(recording["eos"].get<std::string>(), *source);
    const text::ChatTemplate chat(*source, tokenizer.special(), name);
    const ResponseParser parser = ResponseParser::open(tokenizer, chat, name);
    EXPECT_EQ(parser.family(), family(recording["family"].get<std::string>()).name) << name;
    EXPECT_TRUE(parser.notes().empty()) << name;
    ++found;
  }
  if (found == 0) GTEST_SKIP() << "no third_party/trl-templates: run tests/parity/fetch_tokenizers";
}

// The same template with a comment before it has another text.
TEST(ResponseParser, FindsTheFamilyOfAnotherTextByWhatItRenders) {
  const Json all = recorded("responses.json");
  std::size_t found = 0;
  for (const auto& [name, recording] : all["templates"].items()) {
    const std::optional<std::string> source = trl_template(name);
    if (!source) continue;
    const std::string changed = "{# changed #}" + *source;
    const text::Tokenizer tokenizer = bytes_tokenizer(recording["eos"].get<std::string>(), changed);
    const text::ChatTemplate chat(changed, tokenizer.special(), name);
    try {
      const ResponseParser parser = ResponseParser::open(tokenizer, chat, name);
      // Nemotron's calls are those of Qwen3.5, and so is the reasoning that its prompt opens.
      const std::string expected = family(recording["family"].get<std::string>()).name;
      EXPECT_EQ(parser.family(), expected == "Nemotron 3" ? "Qwen3.5" : expected) << name;
      EXPECT_EQ(parser.notes().size(), 1U) << name;
    } catch (const base::UserError& error) {
      ADD_FAILURE() << error.what();
    }
    ++found;
  }
  if (found == 0) GTEST_SKIP() << "no third_party/trl-templates: run tests/parity/fetch_tokenizers";
}

}  // namespace response_parser_test
}  // namespace hone::tools
