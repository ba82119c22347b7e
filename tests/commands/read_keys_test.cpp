// Every key, column and file that transformers, PEFT and TRL read has a row in hone's tables
// (base/read_keys.h).
#include "base/read_keys.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "adapters/config_keys.h"
#include "base/files/file.h"
#include "config/methods.h"
#include "text/tokenizer_keys.h"
#include "train/notes/row_notes.h"

namespace hone::commands {
namespace read_keys_test {

using base::Json;
using base::KeyUse;
using base::ReadKeys;

using enum config::Method;
constexpr std::array kMethods = {kSft, kGrpo, kRloo, kDpo, kOnlineDpo, kReward, kKto, kCpo, kOrpo};

// What hone's tables hold, by the names that tests/parity/record_read_keys.py gives.
std::map<std::string, const ReadKeys*> tables() {
  std::map<std::string, const ReadKeys*> out = {
      {"adapter_config.json", &adapters::adapter_config_keys()},
      {"tokenizer_config.json", &text::tokenizer_config_keys()},
      {"special_tokens_map.json", &text::special_tokens_map_keys()},
      {"tokenizer.json", &text::tokenizer_json_keys()},
      {"added token", &text::added_token_keys()},
  };
  for (const config::Method method : kMethods)
    out["columns of " + std::string(config::method_row(method).word)] = &train::columns_of(method);
  return out;
}

TEST(ReadKeyTables, EachKeyOfTheReferencesHasARow) {
  const base::fs::path recorded = std::string(HONE_FIXTURES) + "/config/read_keys.json";
  const Json lists = base::parse_json(base::read_text(recorded), recorded.string());
  ASSERT_GE(lists.size(), 11U);
  const auto ours = tables();
  for (const auto& [kind, names] : lists.items()) {
    ASSERT_TRUE(ours.contains(kind)) << kind;
    EXPECT_FALSE(names.empty()) << kind;
    for (const Json& name : names)
      EXPECT_NE(ours.at(kind)->find(name.get<std::string>()), nullptr)
          << kind << ": " << name << " has no row: mark it as applied, neutral or refused";
  }
}

TEST(ReadKeyTables, RowsSayWhyAndStandOnce) {
  for (const auto& [kind, table] : tables()) {
    std::set<std::string_view> seen;
    for (const base::ReadKey& key : table->keys()) {
      EXPECT_TRUE(seen.insert(key.name).second) << kind << ": " << key.name << " has two rows";
      EXPECT_EQ(key.why.empty(), key.use == KeyUse::kApplied) << kind << ": " << key.name;
    }
  }
}

}  // namespace read_keys_test
}  // namespace hone::commands
