// Data files that are damaged or hostile: rows or a UserError, in bounded time and memory.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "config/reading/split_text.h"
#include "data/files/row_source.h"
#include "fuzz/mutate.h"

namespace hone::data {
namespace data_files_fuzz_test {

namespace fs = base::fs;

const fs::path kFixture = fs::path(HONE_FIXTURES) / "data" / "datasets";

class DataFilesFuzz : public ::testing::Test {
 protected:
  ~DataFilesFuzz() override { fs::remove(file_); }

  void fuzz(const std::string& ending, const std::vector<std::string>& fixtures) {
    file_ = fs::temp_directory_path() / ("hone_fuzz_" + std::to_string(::getpid()) + ending);
    std::vector<std::string> corpus;
    for (const std::string& name : fixtures) corpus.push_back(base::read_text(kFixture / name));
    const fuzz::Count count =
        fuzz::run(fuzz::seconds(1), corpus, fuzz::mutated_bytes, [this](const std::string& bytes) {
          std::ofstream(file_, std::ios::binary) << bytes;
          RowNames names;
          RowSource(file_).for_each(names, [&](const base::Json& row, int number) {
            EXPECT_TRUE(row.is_object());
            EXPECT_FALSE(names.of(number).empty());
          });
        });
    EXPECT_GE(count.taken, corpus.size());
    std::printf("fuzz: %llu rounds, %llu refused\n", static_cast<unsigned long long>(count.rounds),
                static_cast<unsigned long long>(count.refused));
  }

 private:
  fs::path file_;
};

TEST_F(DataFilesFuzz, Parquet) {
  fuzz(".parquet", {"snappy.parquet", "none.parquet", "zstd.parquet", "gzip.parquet", "lz4.parquet",
                    "plain_v2.parquet", "types.parquet", "json_column.parquet"});
}

TEST_F(DataFilesFuzz, Arrow) {
  fuzz(".arrow", {"stream.arrow", "file.arrow", "lz4.arrow", "zstd.arrow", "types.arrow"});
}

TEST_F(DataFilesFuzz, Csv) {
  fuzz(".csv", {"rows.csv", "crlf.csv"});
  fuzz(".tsv", {"rows.tsv"});
}

TEST_F(DataFilesFuzz, Json) {
  fuzz(".json", {"list.json", "field.json", "texts.json", "rows.jsonl"});
}

TEST_F(DataFilesFuzz, Compressed) {
  fuzz(".jsonl.gz", {"rows.jsonl.gz"});
  fuzz(".csv.gz", {"rows.csv.gz"});
  fuzz(".jsonl.zst", {"rows.jsonl.zst"});
}

TEST(SplitFuzz, Texts) {
  const std::vector<std::string> corpus = {"train[:10%]+test[5:-3]", "train[10%:20%](pct1_dropremainder)",
                                           "a.b[1_0:]"};
  fuzz::run(fuzz::seconds(0.3), corpus, fuzz::mutated_bytes,
            [](const std::string& text) { config::parse_split(text, "test"); });
}

}  // namespace data_files_fuzz_test
}  // namespace hone::data
