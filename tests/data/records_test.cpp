// Tokens in a file are those in memory, in every order.
#include "data/records/records.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "data/records/packing.h"
#include "data/records/record_writer.h"
#include "data/records/shuffle.h"
#include "list_of.h"

namespace hone::data {
namespace records_test {

constexpr std::size_t kAtOnce = 1;  // RecordPlace::most_memory: the first example is too much

// Lengths 0, 1, 2, ...; ids that tell where they came from.
std::vector<Record> some(std::int64_t count) {
  std::vector<Record> out;
  for (std::int64_t row = 0; row < count; ++row) {
    Record& one = out.emplace_back(Record{.row = row});
    for (std::int32_t i = 0; i < row % 37; ++i) {
      one.ids.push_back(static_cast<std::int32_t>(row) * 100 + i);
      one.supervised.push_back(i % 3 == 0 ? 1 : 0);
    }
  }
  return out;
}

Records written(const std::vector<Record>& examples, RecordPlace place) {
  RecordWriter writer(std::move(place));
  for (const Record& example : examples) writer.add(view(example));
  return writer.finish("{}");
}

void expect_equal(const Records& found, const std::vector<Record>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  std::size_t at = 0;
  found.for_each([&](const RecordView& each) { EXPECT_EQ(each.row, expected[at++].row); });
  EXPECT_EQ(at, expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const RecordView each = found[i];
    EXPECT_EQ(each.row, expected[i].row);
    EXPECT_EQ(list_of(each.ids), expected[i].ids) << i;
    EXPECT_EQ(list_of(each.supervised), expected[i].supervised) << i;
    EXPECT_EQ(found.tokens(i), static_cast<std::int64_t>(expected[i].ids.size()));
    std::int64_t scored = 0;
    for (std::size_t t = 1; t < expected[i].supervised.size(); ++t) scored += expected[i].supervised[t];
    EXPECT_EQ(found.scored(i), scored);
    found.release(i);
  }
}

TEST(Records, AreTheSameInMemoryAndInAFile) {
  for (const std::int64_t count : {1, 2, 300}) {
    const std::vector<Record> examples = some(count);
    expect_equal(examples, examples);
    expect_equal(written(examples, {.most_memory = kAtOnce}), examples);
    expect_equal(written(examples, {.most_memory = 400}), examples);
  }
  EXPECT_TRUE(written({}, {.most_memory = 0}).empty());
}

// Pairs, marked completions and rows of one text, mixed.
TEST(Records, KeepSequencesMarginsAndMarks) {
  using Ids = std::vector<std::int32_t>;
  std::vector<Record> made = some(3);
  Record pair = {.row = 7, .ids = {}, .supervised = {}, .margin = -2.5};
  add_sequence(pair, Part::kChosen, Ids{1, 2, 3}, Ids{4, 5});
  add_sequence(pair, Part::kRejected, Ids{1, 2, 3}, Ids{6}, 4);
  Record marked = {.row = 9, .ids = {}, .supervised = {}, .desirable = true};
  add_sequence(marked, Part::kCompletion, Ids{8}, Ids{9});
  add_sequence(marked, Part::kExchanged, Ids{8}, Ids{});
  made.insert(made.end(), {pair, marked});
  made.push_back({.row = 11, .ids = {5, 6}, .supervised = {0, 1}, .labels = {1, 2}, .desirable = false});
  for (const std::size_t most : {std::size_t{1} << 20, kAtOnce}) {
    const Records found = written(made, {.most_memory = most});
    ASSERT_EQ(found.size(), made.size());
    EXPECT_EQ(found.sequences(2), 0U);
    EXPECT_EQ(found.sequences(3), 2U);
    EXPECT_EQ(found.tokens(3), 9);
    EXPECT_EQ(found.scored(3), 3);
    EXPECT_EQ(found[3].margin, -2.5);
    EXPECT_FALSE(found[3].desirable.has_value());
    const ScoredSequence rejected = found[3].sequence(Part::kRejected);
    EXPECT_EQ(list_of(rejected.context), (Ids{1, 2, 3}));
    EXPECT_EQ(list_of(rejected.scored), (Ids{6}));
    EXPECT_EQ(rejected.completion, 4);
    EXPECT_TRUE(sides_of(found[3]).shares_context());
    EXPECT_EQ(sides_of(found[3]).tokens(true), 6);
    EXPECT_EQ(found[4].desirable, true);
    EXPECT_TRUE(found[4].sequence(Part::kExchanged).scored.empty());
    EXPECT_THROW((void)found[4].sequence(Part::kChosen), base::InternalError);
    EXPECT_EQ(found[5].desirable, false);
    EXPECT_EQ(list_of(found[5].labels), (Ids{1, 2}));
  }
}

TEST(Records, AFileWithoutANameLeavesNothing) {
  const base::fs::path folder =
      base::fs::temp_directory_path() / ("hone_examples_" + std::to_string(::getpid()));
  base::fs::create_directories(folder);
  const std::string before = std::getenv("TMPDIR") == nullptr ? "" : std::getenv("TMPDIR");
  ::setenv("TMPDIR", folder.c_str(), 1);
  const Records held = written(some(50), {.most_memory = kAtOnce});
  EXPECT_TRUE(base::fs::is_empty(folder));
  ::setenv("TMPDIR", (folder / "nowhere").c_str(), 1);
  EXPECT_THROW(written(some(50), {.most_memory = kAtOnce}), std::exception);
  before.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before.c_str(), 1);
  expect_equal(held, some(50));
  base::fs::remove_all(folder);
}

TEST(Records, OrderAndAppend) {
  const std::vector<Record> all = some(90);
  Records found = written(all, {.most_memory = kAtOnce});
  std::vector<Record> expected = all;
  for (int twice = 0; twice < 2; ++twice) {
    found.reorder(dataset_shuffle(90, 7));
    dataset_shuffle(expected, 7);
  }
  found.append(all);
  expected.insert(expected.end(), all.begin(), all.end());
  found.append({});
  expect_equal(found, expected);
  EXPECT_THROW(found.reorder({0}), base::InternalError) << "examples of two sources";
  EXPECT_THROW(found[180], base::InternalError);
}

TEST(Records, PackingOfAFileIsPackingOfMemory) {
  const std::vector<Record> all = some(2500);
  const Records file = written(all, {.most_memory = kAtOnce});
  const auto batches = [](const Records& examples, const PackedRows& rows) {
    std::vector<std::vector<std::int64_t>> out;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const Batch batch = make_batch(examples, rows, {static_cast<std::int64_t>(row)});
      out.push_back(batch.ids);
      out.push_back(batch.labels);
    }
    return out;
  };
  EXPECT_EQ(batches(file, pack_bfd(file, 40)), batches(all, pack_bfd(all, 40)));
  const PackedRecords split = pack_bfd_split(file, 16, kAtOnce), split_all = pack_bfd_split(all, 16);
  EXPECT_EQ(batches(split.records, split.rows), batches(split_all.records, split_all.rows));
  const PackedRecords wrapped = pack_wrapped(file, 50, kAtOnce), wrapped_all = pack_wrapped(all, 50);
  EXPECT_EQ(batches(wrapped.records, wrapped.rows), batches(wrapped_all.records, wrapped_all.rows));
  PackedRows rows = no_packing(file);
  rows.reorder(dataset_shuffle(2500, 3));
  EXPECT_EQ(make_batch(file, rows, {0}).ids,
            make_batch(file, no_packing(file), {dataset_shuffle(2500, 3)[0]}).ids);
}

// RssFile of this process, in bytes.
std::int64_t mapped_in_memory() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("RssFile:")) return std::stoll(line.substr(8)) * 1024;
  }
  return 0;
}

TEST(Records, WhatWasReadIsGivenBack) {
  constexpr std::int64_t kEach = 40'000, kCount = 500;  // 100 MB
  Record one = {
      .row = 0, .ids = std::vector<std::int32_t>(kEach), .supervised = std::vector<std::uint8_t>(kEach)};
  RecordWriter writer({.most_memory = kAtOnce});
  for (std::int64_t i = 0; i < kCount; ++i) {
    one.row = i;
    writer.add(view(one));
  }
  const Records file = writer.finish();
  const PackedRows rows = no_packing(file);
  const std::int64_t before = mapped_in_memory();
  for (std::int64_t i = 0; i < kCount; ++i)
    ASSERT_EQ(make_batch(file, rows, {i}).ids.size(), std::size_t{kEach});
  std::int64_t most = 0, tokens = 0;
  file.for_each([&](const RecordView& each) {
    tokens += each.ids.back() + static_cast<std::int64_t>(each.ids.size());
    most = std::max(most, mapped_in_memory());
  });
  EXPECT_EQ(tokens, kEach * kCount);
  EXPECT_LT(mapped_in_memory() - before, 8 << 20);
  EXPECT_LT(most - before, 70 << 20) << "not all of the 100 MB";
}

}  // namespace records_test
}  // namespace hone::data
