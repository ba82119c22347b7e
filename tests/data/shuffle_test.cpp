#include "data/records/shuffle.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hone::data {
namespace shuffle_test {

TEST(DatasetShuffle, EqualsDatasetsShuffle) {
  std::ifstream file(HONE_FIXTURES "/data/shuffle.json");
  const nlohmann::json recorded = nlohmann::json::parse(file);
  ASSERT_EQ(recorded["cases"].size(), 8U);
  for (const auto& run : recorded["cases"]) {
    EXPECT_EQ(dataset_shuffle(run["rows"], run["seed"]), run["order"].get<std::vector<std::int64_t>>())
        << run["rows"] << " rows, seed " << run["seed"];
  }
}

TEST(DatasetShuffle, MovesValues) {
  std::vector<std::string> values = {"a", "b", "c"};
  const std::vector<std::int64_t> order = dataset_shuffle(3, 5);
  dataset_shuffle(values, 5);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(values[i], std::string(1, static_cast<char>('a' + order[i])));
}

TEST(DatasetShuffle, NoRows) {
  EXPECT_TRUE(dataset_shuffle(0, 1).empty());
}

}  // namespace shuffle_test
}  // namespace hone::data
