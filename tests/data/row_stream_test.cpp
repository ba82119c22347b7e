// Rows in blocks are the rows, and a wrong one is named after those before it were given.
#include "data/files/row_stream.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "data/forms/tokenize.h"
#include "data/records/record_stream.h"
#include "data/records/record_writer.h"
#include "list_of.h"

namespace hone::data {
namespace row_stream_test {

class RowStreams : public testing::Test {
 protected:
  void SetUp() override {
    file_ = base::fs::temp_directory_path() / ("hone_row_stream_" + std::to_string(::getpid()) + ".jsonl");
  }
  void TearDown() override { base::fs::remove(file_); }

  void write(int rows, const std::string& last = "") const {
    std::ofstream out(file_);
    for (int i = 0; i < rows; ++i) out << R"({"text": "row number )" << i << "\"}\n";
    out << last;
  }
  // Rows, and at the end what was thrown.
  std::pair<std::int64_t, std::string> read(BlockSize size) const {
    RowStream<Rows> stream(file_, Rows(), size);
    std::int64_t rows = 0;
    try {
      while (const std::optional<Rows> block = stream.next()) {
        EXPECT_EQ(block->first, rows);
        EXPECT_LE(block->rows.size(), size.rows);
        for (std::size_t i = 0; i < block->rows.size(); ++i) {
          EXPECT_EQ(block->rows[i]["text"], "row number " + std::to_string(rows));
          EXPECT_EQ(block->where(i), file_.string() + ":" + std::to_string(rows + 1));
          ++rows;
        }
      }
    } catch (const base::UserError& error) {
      return {rows, error.what()};
    }
    return {rows, ""};
  }

  base::fs::path file_;
};

TEST_F(RowStreams, BlocksAreTheRowsInOrder) {
  for (const int rows : {1, 7, 8, 100}) {
    write(rows);
    EXPECT_EQ(read({.rows = 8}).first, rows);
    EXPECT_EQ(read({.rows = 1000, .bytes = 60}).first, rows);
    EXPECT_EQ(read({}).first, rows);
  }
}

TEST_F(RowStreams, AWrongRowComesAfterThoseBeforeIt) {
  write(20, "{\"text\": 5}\n{\"text\": \"never\"}\n");
  const auto [rows, message] = read({.rows = 8});
  EXPECT_EQ(rows, 20);
  EXPECT_NE(message.find(".jsonl:21"), std::string::npos) << message;
  write(20, "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n");
  const std::string other = read({.rows = 8}).second;
  EXPECT_NE(other.find("like the first one (" + file_.string() + ":1)"), std::string::npos) << other;
  write(0);
  EXPECT_NE(read({}).second.find("at least one row"), std::string::npos);
}

TEST_F(RowStreams, NobodyNeedsToReadOn) {
  write(5000);
  RowStream<Rows> stream(file_, Rows(), {.rows = 2});
  ASSERT_TRUE(stream.next());
}

const text::Tokenizer& tiny() {
  static const text::Tokenizer value = text::Tokenizer::from_folder(HONE_FIXTURES "/text/tiny");
  return value;
}

TEST_F(RowStreams, BlocksTokenizeToTheSameExamplesAndFacts) {
  write(500, R"({"text": "a much longer row that is cut, because nobody can read so much at once"})");
  const TokenizeOptions options = {.max_length = 12};
  const Dataset whole = tokenize_rows(read_rows(file_, "text"), tiny(), nullptr, options);
  RowStream<Rows> stream(file_, Rows(), {.rows = 7});
  BlockTokenizer tokenizing(tiny(), nullptr, options);
  RecordWriter writer;
  while (const std::optional<Rows> block = stream.next())
    tokenizing.add(*block, [&writer](const Record& example) { writer.add(view(example)); });
  const DataFacts facts = tokenizing.finish();
  const Records examples = writer.finish();
  ASSERT_EQ(examples.size(), whole.records.size());
  for (std::size_t i = 0; i < examples.size(); ++i) {
    EXPECT_EQ(examples[i].row, whole.records[i].row);
    EXPECT_EQ(list_of(examples[i].ids), list_of(whole.records[i].ids));
  }
  EXPECT_EQ(facts.rows, whole.facts.rows);
  EXPECT_EQ(facts.tokens, whole.facts.tokens);
  EXPECT_EQ(facts.rows_cut, whole.facts.rows_cut);
  EXPECT_EQ(facts.longest, whole.facts.longest);
  EXPECT_EQ(facts.length_keeping_99, whole.facts.length_keeping_99);
  EXPECT_EQ(facts.mean_length, whole.facts.mean_length);
}

// ---- RecordStream

// Blocks of 4 rows, of `rows` in all; row i is the token i.
RecordStream stream_of(std::int64_t rows, int* passes) {
  return RecordStream([rows, passes] {
    *passes += 1;
    return [rows, at = std::int64_t{0}]() mutable -> std::optional<RecordBlock> {
      if (at >= rows) return std::nullopt;
      std::vector<Record> block;
      for (int i = 0; i < 4 && at < rows; ++i, ++at)
        block.push_back({.row = at, .ids = {static_cast<std::int32_t>(at)}, .supervised = {1}});
      return RecordBlock{.records = block, .rows = no_packing(block)};
    };
  });
}

TEST(RecordStream, HoldsWhatIsAskedForAndEnds) {
  int passes = 0;
  RecordStream stream = stream_of(10, &passes);
  EXPECT_EQ(stream.hold(0, 3), 3);
  EXPECT_EQ(stream.batch({0, 2}).ids, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(stream.hold(3, 6), 6) << "over the end of a block";
  EXPECT_EQ(stream.batch({3, 4, 5}).ids, (std::vector<std::int64_t>{3, 4, 5}));
  EXPECT_EQ(stream.hold(9, 12), 10);
  EXPECT_EQ(stream.members(9).at(0).row, 9);
  EXPECT_EQ(passes, 1);
  EXPECT_EQ(stream.hold(0, 3), 3) << "another pass";
  EXPECT_EQ(stream.batch({1}).ids, (std::vector<std::int64_t>{1}));
  EXPECT_EQ(passes, 2);
  EXPECT_THROW((void)stream.batch({11}), base::InternalError);
}

}  // namespace row_stream_test
}  // namespace hone::data
