#include "base/json_tools.h"

#include <gtest/gtest.h>

#include <ctime>
#include <functional>

#include "base/error.h"
#include "base/files/safetensors.h"
#include "base/make_files.h"
#include "base/strings/utf8.h"

namespace hone::base {
namespace json_tools_test {

double seconds_of(const std::function<void()>& work) {
  const std::clock_t begin = std::clock();  // of this process alone, however busy the machine is
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

std::string object_of(int keys) {
  std::string out = "{";
  for (int i = 0; i < keys; ++i) out += (i == 0 ? "\"key" : ",\"key") + std::to_string(i) + "\":{}";
  return out + "}";
}

TEST(ManyKeys, AreReadInLinearTime) {
  // Quadratic, 200,000 keys take minutes.
  const std::string text = object_of(200'000);
  Json value;
  EXPECT_LT(seconds_of([&] { value = parse_json(text, "test"); }), 5);
  EXPECT_EQ(value.size(), 200'000U);
  EXPECT_EQ(value.begin().key(), "key0");
  nlohmann::json unique;
  EXPECT_LT(seconds_of([&] { unique = parse_json_unique(text, "test"); }), 5);
  EXPECT_EQ(unique.size(), 200'000U);
}

TEST(ManyKeys, OfASafetensorsHeader) {
  const TempFolder folder;
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i) {
    header += (i == 0 ? "\"t" : ",\"t") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(i) + "," +
              std::to_string(i + 1) + "]}";
  }
  put(folder / "m", safetensors_bytes(header + "}", std::string(100'000, 'd')));
  EXPECT_LT(seconds_of([&] { EXPECT_EQ(SafetensorsFile::open(folder / "m").tensors().size(), 100'000U); }),
            5);
}

TEST(ManyKeys, KeepTheOrderAndTheLastValue) {
  std::string text = object_of(100);
  text.back() = ',';
  text += R"("key3":[1,{"a":1,"a":{"b":2}}],"key90":7})";
  const Json value = parse_json(text, "test");
  EXPECT_EQ(value.size(), 100U);
  EXPECT_EQ(std::next(value.begin(), 3).key(), "key3");
  EXPECT_EQ(dump_json(value["key3"]), R"([1,{"a":{"b":2}}])");
  EXPECT_EQ(value["key90"], Json(7));
}

TEST(ObjectFiller, FindsWhatIsThere) {
  Json object = parse_json(object_of(40), "test");
  ObjectFiller filler(object);
  filler.at("key7") = 1;
  filler.at("new") = 2;
  filler.at("new") = 3;
  EXPECT_EQ(object.size(), 41U);
  EXPECT_EQ(object["key7"], Json(1));
  EXPECT_EQ(object["new"], Json(3));
}

TEST(Utf8, FindsTheFirstBadByte) {
  for (const char* good : {"", "a", "é", "漢", "\U0001F600", "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF"}) {
    EXPECT_EQ(bad_utf8_at(good), std::string::npos) << good;
  }
  for (const char* bad :
       {"\xFF", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\x80"}) {
    EXPECT_EQ(bad_utf8_at("ab" + std::string(bad) + "c"), 2U);
  }
  EXPECT_EQ(with_bad_utf8_shown("a\xFFz\xE9"), "a\\xFFz\\xE9");
  EXPECT_EQ(cut_text("aé", 2), "a...");
  EXPECT_EQ(cut_text("aé", 3), "aé");
}

TEST(ReadSettings, RefusesWhatIsTooLargeOrEndless) {
  const TempFolder folder;
  put(folder / "small", "{}");
  EXPECT_EQ(read_settings(folder / "small", 2), "{}");
  EXPECT_THROW(read_settings(folder / "small", 1), UserError);
  EXPECT_THROW(read_settings("/dev/zero", 1000), UserError);
  EXPECT_THROW(read_settings(folder / "absent"), UserError);
  EXPECT_THROW(read_settings(folder.path()), UserError);
}

}  // namespace json_tools_test
}  // namespace hone::base
