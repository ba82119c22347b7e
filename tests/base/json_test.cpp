#include "base/json.h"

#include "base/helpers.h"

namespace hone::base {
namespace json_test {

std::string fault(std::string_view text, int first_line = 1) {
  return message_of([&] { parse_json(text, "f.json", first_line); });
}

TEST(Json, KeepsTheOrderOfKeysAndPrintsOneLine) {
  const Json value = parse_json(R"({"z": 1, "a": [true, null, 1.5], "é": "ü"})", "f.json");
  EXPECT_EQ(dump_json(value), R"({"z":1,"a":[true,null,1.5],"é":"ü"})");
  EXPECT_EQ(dump_json(Json{{"a", 1}}, 2), "{\n  \"a\": 1\n}");
}

TEST(Json, PrintsInvalidUtf8AsReplacementCharacters) {
  EXPECT_EQ(dump_json(Json("a\xFF")), "\"a\xEF\xBF\xBD\"");
}

TEST(Json, TheLastOfTwoValuesCounts) {
  EXPECT_EQ(parse_json(R"({"a":1,"a":2})", "f")["a"], 2);
}

TEST(Json, FaultsNameLineAndColumnInCharacters) {
  expect_says(fault("{\"a\": 1,\n \"b\": tru}"),
              {"[f.json:2:10] expected JSON", "found:  ", "invalid literal"});
  expect_says(fault("{\"ü\" 1}"), {"[f.json:1:6]"});
  expect_says(fault("{\"a\" 1}", 12), {"[f.json:12:6]"});
}

TEST(Json, FaultsNameTheLikelyCause) {
  expect_says(fault("[1, 2] x"), {"[f.json:1:8]"});
  expect_says(fault("[1, 2"), {"the text ends early"});
  expect_says(fault(" \n"), {"is empty"});
  expect_says(fault("[1, 2,]"), {"[f.json:1:7]", "a comma after the last entry"});
  expect_says(fault("{'a': 1}"), {"[f.json:1:2]", "single quotes"});
  expect_says(fault("[NaN]"), {"NaN is not JSON"});
  expect_says(fault("{\"a\": None}"), {"None is not JSON"});
  expect_says(fault("[1e999]"), {"too large for a double"});
  expect_says(fault("[\"\xFF\"]"), {"UTF-8"});
}

TEST(Json, RefusesDepthInsteadOfOverflowingTheStack) {
  expect_says(fault(std::string(1'000'000, '[')), {"[f.json:1:257]", "at most 256 levels"});
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  expect_says(fault(objects), {"at most 256 levels"});
  const std::string at_limit = std::string(kMaxJsonDepth, '[') + std::string(kMaxJsonDepth, ']');
  EXPECT_EQ(dump_json(parse_json(at_limit, "f")), at_limit);
  EXPECT_NO_THROW(parse_json("[\"" + std::string(1000, '[') + "\\\"[\"]", "f"));  // brackets in a string
}

TEST(Json, UniqueRefusesAKeyTwiceAtAnyDepth) {
  const auto twice = [](std::string_view text) { return message_of([&] { parse_json_unique(text, "f"); }); };
  expect_says(twice(R"({"a":1,"b":2,"a":3})"), {"[f] expected each name only once", "'a' twice"});
  expect_says(twice(R"([{"b":{"c":1,"c":1}}])"), {"'c' twice"});
  EXPECT_EQ(parse_json_unique(R"([{"a":{"a":1}},{"a":2}])", "f").size(), 2U);
}

TEST(Json, ALineIsWhatTheLibraryWrites) {
  std::string bytes;
  for (int byte = 0; byte < 0x80; ++byte) bytes += static_cast<char>(byte);
  const std::vector<std::string> texts = {
      "",   bytes, "plain", "two\nlines", "\u00e9\u4e2d\U0001F600\u2028", "bad\xff", "\xed\xa0\x80 x",
      "\"", "\\",  "tail\t"};
  Json value = {{"empty", Json::object()},
                {"none", nullptr},
                {"list", Json::array()},
                {"yes", true},
                {"int", -7},
                {"float", 0.1 + 0.2},
                {"huge", 18446744073709551615ULL},
                {"texts", texts}};
  for (const std::string& text : texts)
    value["nested"][text] = {{"a", Json::array({text, 1.5, {{text, text}}})}};
  const auto library = [](const Json& each) {
    return each.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  EXPECT_EQ(dump_json(value), library(value));
  for (const auto& [key, item] : value.items()) EXPECT_EQ(dump_json(item), library(item)) << key;
}

}  // namespace json_test
}  // namespace hone::base
