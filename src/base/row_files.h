// Where the rows of a data set are: files in order, which of their rows, which columns.
// config/datasets/dataset_files.h finds them, data/files/row_source.h reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/row_mapping.h"

namespace hone::base {

// Rows [from, to) of some files counted together, as datasets' ReadInstruction reads `train[10:20%]`.
// Negative numbers count from the end; absent ones are the beginning and the end.
struct RowSlice {
  std::optional<std::int64_t> from, to;
  bool percent = false;         // of the rows, rounded to the nearest, halves to even
  bool drop_remainder = false;  // (pct1_dropremainder): a percent is floor(rows / 100) rows

  bool whole() const { return !from && !to; }
  bool operator==(const RowSlice&) const = default;
};

// One split, or a part of it.
struct RowPart {
  std::string split;
  std::vector<fs::path> files;
  RowSlice slice;

  bool operator==(const RowPart&) const = default;
};

struct RowSet {
  std::string name;  // as the user wrote it, for messages
  std::vector<RowPart> parts;
  std::vector<std::string> columns;  // only these; empty: all
  std::optional<double> first;       // only floor(first * rows) rows, as alignment-handbook's dataset_mixer
  bool drawn = false;  // ... of the order of RowFiles::shuffle_seed, as open-r1's dataset_mixture
  std::optional<double>
      fraction;  // its share of a mixture, as TRL's DatasetConfig.fraction; all have one, or none

  bool operator==(const RowSet&) const = default;
};

// datasets' train_test_split: rows by numpy's permutation of `seed`; the test side is the first
// ceil(size * rows) of it, or `size` rows when that is 1 or more.
struct TestSplit {
  double size = 0;
  std::uint64_t seed = 0;
  bool test = false;  // which side these rows are

  bool operator==(const TestSplit&) const = default;
};

// One data set, or a mixture, whose rows are concatenated.
struct RowFiles {
  std::vector<RowSet> sets;
  // All rows together in the order of datasets' shuffle(seed), before the test split.
  std::optional<std::uint64_t> shuffle_seed;
  std::optional<TestSplit> test_split;
  RowMapping mapping;              // of every row
  bool empty_system_turn = false;  // data/forms/system_turn.h, for every row

  RowFiles() = default;
  explicit RowFiles(const fs::path& file)
      : sets({{.name = file.string(), .parts = {{.split = "train", .files = {file}, .slice = {}}}}}) {}

  // Every file, in the order of reading; one that is read twice stands twice.
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const RowSet& set : sets) {
      for (const RowPart& part : set.parts) out.insert(out.end(), part.files.begin(), part.files.end());
    }
    return out;
  }
  bool operator==(const RowFiles&) const = default;
};

}  // namespace hone::base
