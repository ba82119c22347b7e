#include "base/read_keys.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hone::base {
namespace read_keys_test {

constexpr ReadKey kKeys[] = {{"r"},
                             {"revision", KeyUse::kNeutral, "it says where the base came from"},
                             {"use_qalora", KeyUse::kRefused, "hone has no QA-LoRA"}};
constexpr ReadKeys kTable("adapter_config.json", kKeys);

TEST(ReadKeys, GivesValuesOfKeysThatAreAppliedOrRefused) {
  const Json object = {{"r", 8}, {"use_qalora", true}};
  EXPECT_EQ(kTable.at(object, "r"), Json(8));
  EXPECT_EQ(kTable.at(object, "use_qalora"), Json(true));
  EXPECT_TRUE(kTable.at(Json::object(), "r").is_null());
  EXPECT_TRUE(kTable.at(Json(nullptr), "r").is_null());
}

// Code that begins to read a key has to say in the table what it does with it.
TEST(ReadKeys, ReadingAKeyWithoutARowIsABug) {
  const Json object = {{"new_key", 1}, {"revision", "main"}};
  EXPECT_THROW(kTable.at(object, "new_key"), InternalError);
  EXPECT_THROW(kTable.at(object, "revision"), InternalError);
}

TEST(ReadKeys, NamesWhatNoRowMarks) {
  const Json object = {{"z", 1}, {"r", 8}, {"revision", "main"}, {"a", nullptr}};
  EXPECT_EQ(kTable.unmarked(object), (std::vector<std::string>{"z", "a"}));
  EXPECT_TRUE(kTable.unmarked(Json::array({"z"})).empty());
}

}  // namespace read_keys_test
}  // namespace hone::base
