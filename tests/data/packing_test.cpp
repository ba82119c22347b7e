#include "data/records/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "list_of.h"

namespace hone::data {
namespace packing_test {

Record example_of(std::int64_t row, std::int64_t length, std::uint8_t supervised = 1) {
  const auto size = static_cast<std::size_t>(length);
  return {row, std::vector<std::int32_t>(size, static_cast<std::int32_t>(row)),
          std::vector<std::uint8_t>(size, supervised)};
}

// Recorded from TRL's pack_dataset. TRL cuts inside packing; our examples arrive cut.
TEST(Packing, EqualsTrlBinForBin) {
  std::ifstream file(HONE_FIXTURES "/data/packing_bfd.json");
  const nlohmann::json recorded = nlohmann::json::parse(file);
  ASSERT_EQ(recorded["cases"].size(), 8U);
  for (const auto& run : recorded["cases"]) {
    const std::int64_t max_length = run["max_length"];
    std::vector<Record> examples;
    for (const std::int64_t length : run["lengths"]) {
      examples.push_back(
          example_of(static_cast<std::int64_t>(examples.size()), std::min(length, max_length)));
    }
    std::vector<std::vector<std::int64_t>> bins;
    const PackedRows rows = pack_bfd(examples, max_length);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      bins.emplace_back(rows.members(row).begin(), rows.members(row).end());
      EXPECT_LE(row_tokens(examples, rows, row), max_length);
    }
    EXPECT_EQ(bins, run["bins"].get<decltype(bins)>()) << run["name"];
  }
}

// Each token is its own number, in the order of the rows: [first, count] tells where a piece came from.
TEST(Packing, EqualsTrlWhereRowsAreCut) {
  std::ifstream file(HONE_FIXTURES "/data/packing_cut.json");
  const nlohmann::json recorded = nlohmann::json::parse(file);
  ASSERT_EQ(recorded["cases"].size(), 10U);
  for (const auto& run : recorded["cases"]) {
    const std::string name = run["strategy"].get<std::string>() + ", " + run["name"].get<std::string>();
    const std::int64_t max_length = run["max_length"];
    std::vector<Record> examples;
    std::int32_t next = 0;
    for (const std::int64_t length : run["lengths"]) {
      Record& one = examples.emplace_back(example_of(static_cast<std::int64_t>(examples.size()), length));
      for (std::int32_t& id : one.ids) id = next++;
    }
    const PackedRecords packed = run["strategy"] == "wrapped" ? pack_wrapped(examples, max_length)
                                                              : pack_bfd_split(examples, max_length);
    std::vector<std::vector<std::vector<std::int64_t>>> rows;
    std::set<std::int64_t> keys;
    for (std::size_t row = 0; row < packed.rows.size(); ++row) {
      auto& out = rows.emplace_back();
      std::int64_t tokens = 0;
      for (const std::uint32_t member : packed.rows.members(row)) {
        const RecordView one = packed.records[member];
        out.push_back({one.ids.front(), static_cast<std::int64_t>(one.ids.size())});
        EXPECT_EQ(one.ids.back() - one.ids.front(), static_cast<std::int64_t>(one.ids.size()) - 1) << name;
        EXPECT_EQ(one.supervised.size(), one.ids.size()) << name;
        const auto from = static_cast<std::size_t>(file_row(one.row));
        EXPECT_EQ(std::count(examples[from].ids.begin(), examples[from].ids.end(), one.ids.front()), 1)
            << name;
        EXPECT_TRUE(keys.insert(one.row).second) << name << ": two pieces with the same randomness";
        tokens += static_cast<std::int64_t>(one.ids.size());
      }
      EXPECT_EQ(row_tokens(packed.records, packed.rows, row), tokens) << name;
    }
    EXPECT_EQ(rows, run["rows"].get<decltype(rows)>()) << name;
  }
}

TEST(Packing, FlagsStayWithTheirTokens) {
  Record one = example_of(3, 5);
  one.supervised = {0, 0, 1, 1, 0};
  const PackedRecords split = pack_bfd_split({one}, 3);
  EXPECT_EQ(list_of(split.records[0].supervised), (std::vector<std::uint8_t>{0, 0, 1}));
  EXPECT_EQ(list_of(split.records[1].supervised), (std::vector<std::uint8_t>{1, 0}));
  const PackedRecords wrapped = pack_wrapped({one, example_of(4, 2)}, 4);
  EXPECT_EQ(list_of(wrapped.records[0].supervised), (std::vector<std::uint8_t>{0, 0, 1, 1}));
  EXPECT_EQ(list_of(wrapped.records[1].supervised), (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(file_row(wrapped.records[1].row), 3);
}

TEST(Packing, ALongerExampleIsOurBug) {
  EXPECT_THROW(pack_bfd({example_of(0, 9)}, 8), base::InternalError);
  EXPECT_THROW(pack_bfd({example_of(0, 9)}, 0), base::InternalError);
}

TEST(Packing, WithoutPackingARowIsAnExample) {
  const Records examples = {example_of(0, 3), example_of(1, 5)};
  const PackedRows rows = no_packing(examples);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(list_of(rows.members(1)), std::vector<std::uint32_t>{1});
  EXPECT_EQ(row_tokens(examples, rows, 1), 5);
}

TEST(Batch, SegmentsPositionsAndLabels) {
  const std::vector<Record> examples = {
      {7, {10, 11, 12}, {0, 1, 1}}, {8, {20, 21}, {1, 1}}, {9, {30, 31, 32}, {1, 0, 1}}};
  const Batch batch = make_batch(examples, PackedRows({{2}, {0, 1}}), {1, 0});
  EXPECT_EQ(batch.ids, (std::vector<std::int64_t>{10, 11, 12, 20, 21, 30, 31, 32}));
  EXPECT_EQ(batch.positions, (std::vector<std::int64_t>{0, 1, 2, 0, 1, 0, 1, 2}));
  EXPECT_EQ(batch.labels, (std::vector<std::int64_t>{kIgnore, 11, 12, kIgnore, 21, kIgnore, kIgnore, 32}));
  ASSERT_EQ(batch.segments.size(), 3U);
  EXPECT_EQ(batch.segments[1].begin, 3);
  EXPECT_EQ(batch.segments[1].end, 5);
  EXPECT_EQ(batch.segments[1].row, 8);
  EXPECT_EQ(batch.segments[2].row, 9);
}

TEST(Batch, OnlyTheRowsAskedFor) {
  const Records examples = {example_of(0, 2), example_of(1, 3)};
  EXPECT_EQ(make_batch(examples, no_packing(examples), {1}).ids, (std::vector<std::int64_t>{1, 1, 1}));
  EXPECT_TRUE(make_batch(examples, no_packing(examples), {}).segments.empty());
}

TEST(Batch, EveryTokenHasItsFlag) {
  EXPECT_THROW(make_batch({{0, {1, 2}, {1}}}, PackedRows(std::vector<std::vector<std::int64_t>>{{0}}), {0}),
               base::InternalError);
}

}  // namespace packing_test
}  // namespace hone::data
