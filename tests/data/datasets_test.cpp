// The rows and their order against datasets itself (tests/parity/record_datasets.py).
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "config/datasets/dataset_files.h"
#include "config/write_plan.h"
#include "data/files/row_source.h"

namespace hone::data {
namespace datasets_test {

using base::Json;
using config::DatasetAsked;

const base::fs::path kFolder = base::fs::path(HONE_FIXTURES) / "data" / "datasets";

const Json& recorded() {
  static const Json all = base::parse_json(base::read_text(kFolder / "datasets.json"), "datasets.json");
  return all.at("cases");
}

std::vector<Json> rows_of(const base::RowFiles& files) {
  std::vector<Json> out;
  RowNames names;
  RowSource(files).for_each(names, [&out](Json row, int) { out.push_back(std::move(row)); });
  return out;
}

Json column_i(const base::RowFiles& files) {
  Json out = Json::array();
  for (const Json& row : rows_of(files)) out.push_back(row.at("i"));
  return out;
}

base::RowFiles find_case(const Json& one) {
  base::RowFiles out;
  const std::string config =
      one.contains("config") && one["config"].is_string() ? one["config"].get<std::string>() : "";
  out.sets.push_back(
      config::find_rows({.path = (kFolder / one.at("dataset_name").get<std::string>()).string(),
                         .config = config,
                         .data_dir = "",
                         .data_files = nullptr,
                         .split = one.value("split", "train"),
                         .split_name = "dataset_train_split",
                         .option = "dataset_name",
                         .where = "test"}));
  return out;
}

// The same numbers, however they are stored.
void expect_equal(const Json& found, const Json& expected, const std::string& where) {
  if (expected.is_number()) {
    ASSERT_TRUE(found.is_number()) << where;
    EXPECT_EQ(found.is_number_float(), expected.is_number_float()) << where;
    EXPECT_EQ(found.get<double>(), expected.get<double>()) << where;
  } else if (expected.is_object()) {
    ASSERT_TRUE(found.is_object()) << where << ": " << found.dump();
    auto there = found.begin();
    ASSERT_EQ(found.size(), expected.size()) << where << ": " << found.dump();
    for (const auto& [key, value] : expected.items()) {
      EXPECT_EQ(there.key(), key) << where;
      expect_equal(there.value(), value, where + "." + key);
      ++there;
    }
  } else if (expected.is_array()) {
    ASSERT_EQ(found.size(), expected.size()) << where << ": " << found.dump();
    for (std::size_t i = 0; i < expected.size(); ++i) expect_equal(found[i], expected[i], where);
  } else {
    EXPECT_EQ(found, expected) << where;
  }
}

TEST(Datasets, RowsOfEveryFormat) {
  int cases = 0;
  for (const Json& one : recorded()) {
    if (!one.contains("rows")) continue;
    ++cases;
    expect_equal(Json(rows_of(find_case(one))), one["rows"], one["dataset_name"].get<std::string>());
  }
  EXPECT_GE(cases, 25);
}

TEST(Datasets, SplitsOfFilesAndFolders) {
  int cases = 0;
  for (const Json& one : recorded()) {
    if (!one.contains("split")) continue;
    ++cases;
    EXPECT_EQ(column_i(find_case(one)), one["i"]) << one.dump();
  }
  EXPECT_GE(cases, 50);
}

Json absolute(Json mixture) {
  for (Json& entry : mixture) {
    if (entry["path"] == "json") {
      for (Json& file : entry["data_files"]) file = (kFolder / file.get<std::string>()).string();
    } else {
      entry["path"] = (kFolder / entry["path"].get<std::string>()).string();
    }
  }
  return mixture;
}

TEST(Datasets, Mixtures) {
  int cases = 0;
  for (const Json& one : recorded()) {
    if (!one.contains("datasets")) continue;
    ++cases;
    config::Settings settings(config::method_schema(config::Method::kSft));
    settings.replace("datasets", absolute(one["datasets"]));
    if (one.contains("test_split_size")) settings.replace("test_split_size", one["test_split_size"]);
    const config::Mixture mixture = config::find_mixture(settings);
    EXPECT_EQ(column_i(mixture.train), one["i"]) << one.dump();
    if (one.contains("test")) {
      EXPECT_EQ(column_i(mixture.test), one["test"]) << one.dump();
    }
  }
  EXPECT_GE(cases, 10);
}

}  // namespace datasets_test
}  // namespace hone::data
