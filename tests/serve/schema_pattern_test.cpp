// response_format: the texts that a schema's expression has, and answers that match it.
#include "serve/openai/schema_pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "base/strings/code_points.h"
#include "base/strings/pattern.h"
#include "base/strings/pattern_states.h"
#include "serve/openai/errors.h"
#include "serve/openai/observed.h"
#include "serve/tiny_served.h"
#include "text/token_pattern.h"

namespace hone::serve {
namespace schema_pattern_test {

using base::Json;

bool has(const std::string& pattern, const std::string& text) {
  base::PatternStates states(pattern, "test");
  auto state = states.start();
  for (const char32_t c : base::to_code_points(text)) state = states.next(state, c);
  return states.accepts(state);
}

struct Case {
  const char *schema, *in, *out;  // texts that it has, and has not, by lines
};

TEST(SchemaPattern, HasTextsOfTheSchemaAlone) {
  for (
      const Case& one : {
          Case{R"({"type":"string"})", "\"\"\n\"a \\n \\u00e9 ä\"", "a\n\"a\n\"\\x\"\n\"\\ud800\"\n\"a\"b\""},
          Case{R"({"type":"string","minLength":1,"maxLength":2})", "\"a\"\n\"\\\"ä\"", "\"\"\n\"abc\""},
          Case{R"({"type":"integer"})", "0\n-12\n1234567890123456", "01\n1.0\n+1\n-\n12345678901234567"},
          Case{R"({"type":"number"})", "0.5\n-1e-9\n3", ".5\n1.\n1e\nNaN"},
          Case{R"({"type":["boolean","null"]})", "true\nfalse\nnull", "True\nnil\ntruefalse"},
          Case{R"({"enum":["a.b","(","\u00e9",3,null]})", "\"a.b\"\n\"(\"\n\"é\"\n3\nnull",
               "\"axb\"\na.b\n\"3\""},
          Case{R"({"const":{"a":[1,"x|y"]}})", "{\"a\":[1,\"x|y\"]}", "{\"a\":[1,\"x\"]}\n{}"},
          Case{R"({"type":"array","items":{"type":"integer"}})", "[]\n[1]\n[1,2, 3]",
               "[1,]\n[,1]\n[\"a\"]\n[1 ,2]"},
          Case{R"({"type":"array","items":{"type":"null"},"minItems":2,"maxItems":3})",
               "[null,null]\n[null, null,null]", "[]\n[null]\n[null,null,null,null]"},
          Case{R"({"type":"array","maxItems":1})", "[]\n[{\"a\":[1]}]", "[1,2]"},
          Case{R"({"type":"array","maxItems":0})", "[]", "[1]"},
          Case{
              R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"required":["b"]})",
              "{\"b\":null}\n{\"a\":null, \"b\": null}\n{\"b\":null,\"c\":null}\n{\"a\":null,\"b\":null,\"c\":null}",
              "{}\n{\"a\":null}\n{\"a\":null,\"c\":null}\n{\"b\":null,\"a\":null}\n{,\"b\":null}\n{\"b\":null,}"},
          Case{R"({"properties":{"a":{"type":"null"},"b":{"type":"null"}}})",
               "{}\n{\"a\":null}\n{\"b\":null}\n{\"a\":null,\"b\":null}",
               "{\"a\":null\"b\":null}\n{\"c\":1}"},
          Case{R"({"type":"object","additionalProperties":false})", "{}", "{\"a\":1}"},
          Case{R"({"type":"object","additionalProperties":{"type":"integer"}})", "{}\n{\"x y\":1,\"z\": 2}",
               "{\"a\":null}\n{a:1}"},
          Case{
              R"({"anyOf":[{"$ref":"#/$defs/one"},{"type":"null"}],"$defs":{"one":{"type":"boolean"}},"title":"T"})",
              "true\nnull", "1"},
          Case{R"({"allOf":[{"type":"integer"}],"description":"d","default":3})", "3", "\"3\""},
          Case{"{}", "1\n[]\n{\"a\":[1]}", "[[[1]]]\n{"},
      }) {
    const std::string pattern = openai::pattern_of_schema(base::parse_json(one.schema, "test"));
    std::istringstream in(one.in), out(one.out);
    for (std::string text; std::getline(in, text);) {
      EXPECT_TRUE(has(pattern, text)) << one.schema << " " << text;
      EXPECT_NO_THROW(base::parse_json(text, "test")) << text;
    }
    for (std::string text; std::getline(out, text);)
      EXPECT_FALSE(has(pattern, text)) << one.schema << " " << text;
  }
  const std::string any = openai::pattern_of_any_object();
  EXPECT_TRUE(has(any, R"({"a": {"b": [{"c": 1}]}, "d": "e"})"));
  EXPECT_FALSE(has(any, "[]"));
}

TEST(SchemaPattern, NamesWhatItDoesNotRead) {
  std::string wide = R"({"anyOf":[)";
  for (int i = 0; i < 40; ++i) wide += std::string(i > 0 ? "," : "") + R"({"type":"array"})";
  const std::string doubled = R"({"$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/b"}},)"
                              R"("b":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}]}},"$ref":"#/$defs/a"})";
  for (const auto& [schema, word] : std::vector<std::pair<std::string, std::string>>{
           {R"({"type":"string","pattern":"a"})", "schema.pattern"},
           {R"({"type":"string","maxlength":3})", "maxLength"},
           {R"({"properties":{"a":{"type":"integer","minimum":1}}})", "properties.a.minimum"},
           {R"({"oneOf":[{"type":"null"}]})", "oneOf"},
           {R"({"type":"text"})", "schema.type"},
           {R"({"type":"string","maxLength":100000})", "maxLength"},
           {R"({"type":"string","minLength":3,"maxLength":2})", "is below minLength"},
           {R"({"type":"array","items":3})", "schema.items"},
           {R"({"type":"object","required":["a"]})", "required"},
           {R"({"type":"string","enum":[1]})", "another type"},
           {R"({"enum":[]})", "enum"},
           {R"({"$ref":"#/nowhere"})", "nowhere"},
           {R"({"$ref":"https://example.org/s"})", "$ref"},
           {R"({"$ref":"#"})", "holds itself"},
           {doubled, "holds itself"},
           {wide + "]}", "too large"},
       }) {
    try {
      openai::pattern_of_schema(base::parse_json(schema, "test"));
      ADD_FAILURE() << schema;
    } catch (const openai::Refusal& refusal) {
      EXPECT_EQ(refusal.status, 400);
      EXPECT_NE(std::string(refusal.what()).find(word), std::string::npos)
          << schema << ": " << refusal.what();
    }
  }
}

Json format_of(const Json& schema) {
  return {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"strict", true}, {"schema", schema}}}};
}

// The model is random: only the schema makes JSON of what it draws.
TEST(SchemaPattern, AnswersAreOfTheSchema) {
  TinyServed tiny;
  const Json schema = base::parse_json(
      R"({"type":"object","required":["name","ok","tags"],"additionalProperties":false,"properties":{
          "name":{"type":"string","maxLength":6},"ok":{"type":"boolean"},"n":{"type":"null"},
          "tags":{"type":"array","items":{"enum":["a","b"]},"maxItems":2}}})",
      "test");
  std::set<std::string> texts;
  for (int seed = 0; seed < 12; ++seed) {
    Json asked = {
        {"prompt", "one two"}, {"max_tokens", 120}, {"seed", seed}, {"response_format", format_of(schema)}};
    if (seed % 3 == 1) asked["logprobs"] = 2;
    if (seed % 3 == 2) asked["frequency_penalty"] = 1;
    const Json one = tiny.ask("/v1/completions", asked)->wait()["choices"][0];
    ASSERT_EQ(one["finish_reason"], "stop") << one;
    const Json said = base::parse_json(one["text"].get<std::string>(), "the answer");
    EXPECT_TRUE(said["name"].is_string() && said["ok"].is_boolean() && said["tags"].size() <= 2) << said;
    for (const Json& tag : said["tags"]) EXPECT_TRUE(tag == "a" || tag == "b") << said;
    texts.insert(one["text"].get<std::string>());
  }
  EXPECT_GT(texts.size(), 3U);
  const auto refused = [&](const Json& more) {
    Json asked = {{"prompt", "a"}, {"max_tokens", 5}, {"response_format", format_of(schema)}};
    asked.update(more);
    const auto exchange = tiny.ask("/v1/completions", asked);
    exchange->wait();
    return exchange->answered.status == 400 &&
           exchange->answered.body.find("response_format") != std::string::npos;
  };
  EXPECT_TRUE(refused({{"ignore_eos", true}}));
  EXPECT_TRUE(refused({{"response_format", {{"type", "json_schema"}}}}));
  EXPECT_TRUE(refused({{"response_format", {{"type", "xml"}}}}));
  EXPECT_TRUE(refused({{"response_format", {{"type", "text"}, {"schema", 1}}}}));
  // As many states as are kept: counted letters of counted items.
  EXPECT_TRUE(
      refused({{"response_format", format_of({{"type", "array"},
                                              {"minItems", 4096},
                                              {"items", {{"type", "string"}, {"minLength", 4096}}}})}}));
}

// Beyond the states that are kept the text ends, and nothing is thrown on the thread that computes for all.
TEST(SchemaPattern, TooManyStatesEndOneText) {
  TinyServed tiny;
  openai::Wish wish;
  wish.stop_ids = tiny.served.stop_ids;
  wish.matched = std::make_shared<const text::TokenPattern>(
      std::make_shared<const text::TokenTexts>(tiny.tokenizer), "[a-z]{30}", "test", 2);
  openai::Observed observed(wish, true);
  ASSERT_TRUE(observed.is_needed());
  std::vector<float> scores(static_cast<std::size_t>(tiny.model.config().vocab_size), 1.0F);
  observed.before({}, scores);
  EXPECT_TRUE(observed.has_failed());
  EXPECT_EQ(std::count_if(scores.begin(), scores.end(), [](float one) { return std::isfinite(one); }), 1);
  EXPECT_TRUE(std::isfinite(scores[static_cast<std::size_t>(wish.stop_ids.front())]));
  // Another text of the same pattern meets the same end, and no state that is not kept.
  openai::Observed second(wish, true);
  for (int again = 0; again < 2; ++again) {
    std::fill(scores.begin(), scores.end(), 1.0F);
    EXPECT_THROW(wish.matched->constrain({}, wish.stop_ids, scores), base::PatternTooSlow);
  }
  second.before({}, scores);
  EXPECT_TRUE(second.has_failed());
  EXPECT_LE(wish.matched->states(), 2U);
}

// Ten schemas of thirty places for the next one each: nothing of them is in an answer, and reading them would never end.
TEST(SchemaPattern, SchemasThatNameOneAnotherEnd) {
  base::Json definitions = base::Json::object();
  for (int i = 0; i < 10; ++i) {
    base::Json places = base::Json::array();
    for (int k = 0; k < 30; ++k) places.push_back({{"$ref", "#/$defs/d" + std::to_string(i + 1)}});
    definitions["d" + std::to_string(i)] = {
        {"type", "array"}, {"maxItems", 0}, {"items", {{"anyOf", places}}}};
  }
  definitions["d10"] = {{"type", "null"}};
  const base::Json schema = {{"$ref", "#/$defs/d0"}, {"$defs", definitions}};
  EXPECT_THROW(openai::pattern_of_schema(schema), openai::Refusal);
}

}  // namespace schema_pattern_test
}  // namespace hone::serve
