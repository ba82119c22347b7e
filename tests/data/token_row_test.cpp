// What tokenized rows may hold; what they come to is in token_rows_golden_test.cpp.
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/error.h"
#include "data/forms/tokenize.h"
#include "data/records/packing.h"
#include "data/records/record_writer.h"
#include "list_of.h"

namespace hone::data {
namespace token_row_test {

const text::Tokenizer& tiny() {
  static const text::Tokenizer tokenizer = text::Tokenizer::from_folder(HONE_FIXTURES "/text/tiny");
  return tokenizer;
}

Dataset tokenize(const std::string& text, const TokenizeOptions& options = {.vocab_size = 384}) {
  return tokenize_rows(parse_rows(text, "d.jsonl", "text"), tiny(), nullptr, options);
}

std::string error_of(const std::string& text, const TokenizeOptions& options = {.vocab_size = 384}) {
  try {
    tokenize(text, options);
  } catch (const base::UserError& error) {
    return error.what();
  }
  return "no error";
}

struct Wrong {
  std::string row, place, found;
};

TEST(TokenRow, ErrorsNameRowAndColumn) {
  const std::string first = R"({"input_ids": [1, 2], "labels": [-100, 2], "assistant_masks": [0, 1]})"
                            "\n";
  const std::string masked = R"({"input_ids": [1, 2], "assistant_masks": [0, 1]})"
                             "\n";
  const Wrong wrong[] = {
      {first + R"({"input_ids": [1, 384], "labels": [-100, 2]})", "d.jsonl:2 input_ids", "384"},
      {first + R"({"input_ids": [1, -1], "labels": [-100, 2]})", "d.jsonl:2 input_ids", "-1"},
      {first + R"({"input_ids": [1, 2], "labels": [-100, 999]})", "d.jsonl:2 labels", "999"},
      {first + R"({"input_ids": [1, 2], "labels": [-100, -7]})", "d.jsonl:2 labels", "-7"},
      {first + R"({"input_ids": [1, 2], "labels": [2]})", "d.jsonl:2 labels", "1"},
      {first + R"({"input_ids": [1, 2]})", "d.jsonl:2 labels", "no such column"},
      {first + R"({"input_ids": [1, 2], "labels": null})", "d.jsonl:2 labels", "null"},
      {first + R"({"input_ids": [1.5, 2], "labels": [1, 2]})", "d.jsonl:2 input_ids[0]", "1.5"},
      {first + R"({"input_ids": [1, 99999999999], "labels": [1, 2]})", "d.jsonl:2 input_ids[1]",
       "99999999999"},
      {first + R"({"input_ids": "1 2", "labels": [1, 2]})", "d.jsonl:2 input_ids", "\"1 2\""},
      {first + R"({"input_ids": [[1, 2]], "labels": [[1, 2]]})", "d.jsonl:2 input_ids[0]", "a list of 2"},
      {first + R"({"input_ids": [true, 2], "labels": [1, 2]})", "d.jsonl:2 input_ids[0]", "true"},
      {masked + R"({"input_ids": [1, 2], "assistant_masks": [1]})", "d.jsonl:2 assistant_masks", "1"},
      {masked + R"({"input_ids": [1, 2], "assistant_masks": [1, "1"]})", "d.jsonl:2 assistant_masks[1]",
       "\"1\""},
      {masked + R"({"input_ids": [1, 2]})", "d.jsonl:2 assistant_masks", "no such column"},
      {masked + R"({"input_ids": [1, 2], "labels": [1, 2], "assistant_masks": [1, 1]})", "d.jsonl:2 labels",
       "a list"},
      {masked + R"({"text": "a"})", "d.jsonl:2", "text"}};
  for (const Wrong& one : wrong) {
    const std::string message = error_of(one.row);
    EXPECT_NE(message.find(one.place), std::string::npos) << one.row << "\n" << message;
    EXPECT_NE(message.find("found:  " + one.found), std::string::npos) << one.row << "\n" << message;
  }
}

TEST(TokenRow, AnEmptyRowIsDroppedOrNamed) {
  const std::string rows = "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": []}\n";
  EXPECT_EQ(tokenize(rows).records.size(), 1U);
  EXPECT_NE(error_of(rows, {.max_length = 0}).find("d.jsonl:2 input_ids"), std::string::npos);
}

TEST(TokenRow, WhatIsCutAwayNeedsNoRowOfTheEmbedding) {
  EXPECT_EQ(tokenize("{\"input_ids\": [1, 2, 3, 999]}\n", {.max_length = 3, .vocab_size = 384}).facts.tokens,
            3);
}

TEST(TokenRow, LabelsThatAreOtherTokensArePredicted) {
  const Dataset data = tokenize(
      "{\"input_ids\": [3, 50, 60, 2], \"labels\": [-100, 99, 98, -100]}\n"
      "{\"input_ids\": [3, 51, 2], \"labels\": [-100, 51, 2]}\n");
  EXPECT_EQ(data.facts.rows_with_own_labels, 1);
  EXPECT_EQ(data.facts.rows_with_shifted_labels, 0);
  const Batch batch = make_batch(data.records, no_packing(data.records), {0, 1});
  EXPECT_EQ(batch.labels, (std::vector<std::int64_t>{-100, 99, 98, -100, -100, 51, 2}));
  // A packed row of both keeps the labels of each.
  const PackedRecords wrapped = pack_wrapped(data.records, 5);
  const Batch first = make_batch(wrapped.records, wrapped.rows, {0, 1});
  EXPECT_EQ(first.labels, (std::vector<std::int64_t>{-100, 99, 98, -100, -100, -100, 2}));
  EXPECT_EQ(first.ids, (std::vector<std::int64_t>{3, 50, 60, 2, 3, 51, 2}));
}

TEST(TokenRow, CountsWhatTrlDoesNotApply) {
  const DataFacts facts =
      tokenize(
          "{\"input_ids\": [3, 50, 60, 2], \"labels\": [50, 60, 2, -100], \"attention_mask\": [1, 1, 1, 0]}\n"
          "{\"input_ids\": [3, 50, 60, 2], \"labels\": [3, 50, 60, 2], \"attention_mask\": [1, 1, 1, 1]}\n")
          .facts;
  EXPECT_EQ(facts.rows_with_shifted_labels, 1);
  EXPECT_EQ(facts.rows_hiding_attention, 1);
}

TEST(TokenRow, AFileKeepsLabels) {
  const base::fs::path path = base::fs::temp_directory_path() / ("hone_labels_" + std::to_string(::getpid()));
  RecordWriter writer({.kept = path, .key = "k", .most_memory = 0});
  const Record own = {.row = 7, .ids = {1, 2, 3}, .supervised = {0, 1, 1}, .labels = {-100, 9, 8}};
  const Record plain = {.row = 8, .ids = {4, 5}, .supervised = {0, 1}};
  for (const Record& one : {own, plain, own}) writer.add(view(one));
  (void)writer.finish("{}");
  const auto file = TokenFile::open(path, "k");
  base::fs::remove(path);
  ASSERT_TRUE(file);
  ASSERT_EQ(file->records.size(), 3U);
  for (const std::size_t i : {0U, 2U}) {
    EXPECT_EQ(list_of(file->records[i].ids), own.ids);
    EXPECT_EQ(list_of(file->records[i].labels), own.labels);
    EXPECT_EQ(list_of(file->records[i].supervised), own.supervised);
  }
  EXPECT_TRUE(file->records[1].labels.empty());
  EXPECT_EQ(file->records.tokens(0), 3);
  EXPECT_EQ(file->records.tokens(1), 2);
}

TEST(TokenRow, CompletionOnlyLossNeedsACompletion) {
  const TokenizeOptions only = {.completion_only_loss = true};
  EXPECT_NE(error_of("{\"input_ids\": [1, 2]}\n", only).find("completion_mask or labels"), std::string::npos);
  EXPECT_NE(error_of("{\"text\": \"a\"}\n", only).find("option completion_only_loss"), std::string::npos);
  EXPECT_NE(error_of("{\"text\": \"a\"}\n", only).find("do:"), std::string::npos);
  EXPECT_EQ(tokenize("{\"prompt\": \"a\", \"completion\": \"b\"}\n", only).facts.kept, 1);
}

TEST(TokenRow, PreparedRowsNeedLabelsForTheirMasks) {
  const TokenizeOptions prepared = {.max_length = 0, .prepared = true};
  EXPECT_NE(error_of("{\"text\": \"a\"}\n", prepared).find("tokenized rows"), std::string::npos);
  EXPECT_NE(
      error_of("{\"input_ids\": [1, 2], \"assistant_masks\": [1, 1]}\n", prepared).find("labels beside"),
      std::string::npos);
  EXPECT_EQ(tokenize("{\"input_ids\": [1, 2]}\n", prepared).facts.kept, 1);
}

}  // namespace token_row_test
}  // namespace hone::data
