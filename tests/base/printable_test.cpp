#include "base/strings/printable.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace hone::base {
namespace printable_test {

TEST(Printable, ControlCharactersAreSpelledOut) {
  EXPECT_EQ(printable("a\x1b[2J\x07\r\x7f\b"), "a\\x1b[2J\\x07\\x0d\\x7f\\x08");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m\xC2\x80\xC2\x9F"),
            "\\x9b31m\\x80\\x9f");
  EXPECT_EQ(printable("line\n\ttab"), "line\n\ttab");
}

TEST(Printable, TextThatReordersIsSpelledOut) {
  EXPECT_EQ(printable("a\u202Eb\u2066c\u2069\u202Ad"), "a\\u202eb\\u2066c\\u2069\\u202ad");
}

TEST(Printable, BytesThatAreNoUtf8AreSpelledOut) {
  EXPECT_EQ(printable("\x9B[2J"), "\\x9b[2J");
  EXPECT_EQ(printable("\xC0\x80\xED\xA0\x80\xF5\x80\x80\x80"),
            "\\xc0\\x80\\xed\\xa0\\x80\\xf5\\x80\\x80\\x80");
  EXPECT_EQ(printable("a\xE6\x97"), "a\\xe6\\x97");
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(Printable, EverythingElseStays) {
  const std::string text = "naïve 漢字 \U0001F600 \u00A0\u200D e\u0301 שלום \U0010FFFF ~";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, JsonStaysTheSameJson) {
  const Json json = {{"a\u009B", "x\x7F\u202E\x1b\u0080é"}};
  const std::string shown = printable_json(dump_json(json, 2));
  EXPECT_EQ(shown.find_first_of("\x1b\x7f\xC2"), std::string::npos) << shown;
  EXPECT_EQ(parse_json(shown, "x"), json);
  EXPECT_NE(shown.find("\\u009b"), std::string::npos);
  EXPECT_NE(shown.find("\\u202e"), std::string::npos);
}

}  // namespace printable_test
}  // namespace hone::base
