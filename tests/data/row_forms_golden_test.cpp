// Names, templates, functions and ShareGPT's messages against datasets and TRL (tests/parity/record_row_forms.py).
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "data/files/row_source.h"

namespace hone::data {
namespace row_forms_golden_test {

using base::Json;

const base::fs::path kFolder = base::fs::path(HONE_FIXTURES) / "data" / "row_forms";

class RowFormsGolden : public testing::Test {
 protected:
  void TearDown() override { base::fs::remove(file_); }

  Json rows_of(const Json& rows, const base::RowMapping& mapping) const {
    {
      std::ofstream out(file_);
      for (const Json& row : rows) out << base::dump_json(row) << '\n';
    }
    base::RowFiles files(file_);
    files.mapping = mapping;
    Json found = Json::array();
    RowNames names;
    RowSource(files).for_each(names, [&](Json row, int) { found.push_back(std::move(row)); });
    return found;
  }

  base::fs::path file_ =
      base::fs::temp_directory_path() / ("hone_row_forms_" + std::to_string(::getpid()) + ".jsonl");
};

base::RowMapping mapping_of(const Json& one) {
  base::RowMapping out;
  if (one.contains("dataset_columns")) {
    for (const auto& [column, name] : one["dataset_columns"].items()) out.columns.emplace_back(column, name);
  }
  out.prompt_template = one.value("prompt_template", "");
  if (one.contains("row_function"))
    out.function.word = (kFolder / "map.py").string() + ":" + one["row_function"].get<std::string>();
  if (one.contains("row_format")) out.format = base::RowFormat::kShareGpt;
  return out;
}

// TRL keeps the roles that row_format renames.
Json with_roles(Json rows, const Json& roles) {
  for (Json& row : rows) {
    for (Json& message : row["messages"])
      message["role"] = roles.value(message["role"].get<std::string>(), message["role"]);
  }
  return rows;
}

TEST_F(RowFormsGolden, AreThoseOfDatasetsAndTrl) {
  const Json recorded = base::parse_json(base::read_text(kFolder / "row_forms.json"), "row_forms.json");
  int cases = 0;
  for (const Json& one : recorded["cases"]) {
    const Json found = rows_of(recorded[one["rows"].get<std::string>()], mapping_of(one));
    Json expected = one["expected"];
    if (one.contains("roles")) expected = with_roles(std::move(expected), one["roles"]);
    ASSERT_EQ(found.size(), expected.size()) << one.dump();
    for (std::size_t i = 0; i < found.size(); ++i) {
      // The order of keys is Arrow's there.
      EXPECT_EQ(nlohmann::json::parse(found[i].dump()), nlohmann::json::parse(expected[i].dump()))
          << one.dump();
    }
    ++cases;
  }
  EXPECT_EQ(cases, 11);
}

}  // namespace row_forms_golden_test
}  // namespace hone::data
