// Tokens kept on disk: what comes back is what was written, and only for the same rows, tokenizer, template and options.
#include "data/forms/token_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "base/error.h"
#include "list_of.h"

namespace hone::data {
namespace token_cache_test {

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer value = text::Tokenizer::from_folder(HONE_FIXTURES "/text/tiny");
  return value;
}

class TokenCaches : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = base::fs::temp_directory_path() / ("hone_token_cache_" + std::to_string(::getpid()));
    base::fs::create_directories(folder_);
    write_rows("one");
  }
  void TearDown() override { base::fs::remove_all(folder_); }

  void write_rows(const std::string& word) const {
    std::ofstream file(folder_ / "rows.jsonl");
    for (int i = 0; i < 300; ++i)
      file << R"({"prompt": "count )" << i << R"(", "completion": " )" << word << "\"}\n";
  }
  base::RowFiles files() const { return base::RowFiles(folder_ / "rows.jsonl"); }
  Dataset tokenized() const {
    return tokenize_rows(read_rows(files(), "text"), tokenizer(), nullptr, options_);
  }
  std::string key() const { return token_key(files(), maker_, token_options(options_)); }
  TokenCache cache() const { return {folder_ / "cache", key(), 1}; }

  TokenizeOptions options_ = {.max_length = 12};
  TokenMaker maker_ = {.program = "build 1", .tokenizer = "tiny", .chat_template = "", .text_field = "text"};
  base::fs::path folder_;
};

// Made again, as a run does it; whether it is kept.
bool keep(const TokenCache& cache, const Dataset& made) {
  RecordWriter writer(cache.place());
  made.records.for_each([&writer](const RecordView& each) { writer.add(each); });
  (void)cache.finish(writer, made.facts);
  return writer.kept();
}

void expect_equal(const KeptRecords& kept, const Dataset& expected) {
  const Dataset found = {.records = kept.records, .facts = std::get<DataFacts>(kept.facts)};
  ASSERT_EQ(found.records.size(), expected.records.size());
  for (std::size_t i = 0; i < found.records.size(); ++i) {
    EXPECT_EQ(found.records[i].row, expected.records[i].row);
    EXPECT_EQ(list_of(found.records[i].ids), list_of(expected.records[i].ids));
    EXPECT_EQ(list_of(found.records[i].supervised), list_of(expected.records[i].supervised));
    EXPECT_EQ(found.records.scored(i), expected.records.scored(i));
  }
  EXPECT_EQ(found.facts.rows, expected.facts.rows);
  EXPECT_EQ(found.facts.tokens, expected.facts.tokens);
  EXPECT_EQ(found.facts.rows_cut, expected.facts.rows_cut);
  EXPECT_EQ(found.facts.length_keeping_99, expected.facts.length_keeping_99);
  EXPECT_EQ(found.facts.mean_length, expected.facts.mean_length);
  EXPECT_EQ(found.facts.form, expected.facts.form);
}

TEST_F(TokenCaches, WhatIsWrittenComesBack) {
  const Dataset made = tokenized();
  EXPECT_FALSE(cache().read().has_value());
  ASSERT_TRUE(keep(cache(), made));
  const auto found = cache().read();
  ASSERT_TRUE(found);
  expect_equal(*found, made);
}

TEST_F(TokenCaches, FactsOfEveryFormComeBack) {
  const std::vector<RowFacts> all = {
      DataFacts{.rows = 7, .mean_length = 1.5, .form = RowForm::kMessages},
      PreferenceFacts{.rows = 9, .kept = 3, .implicit = true, .equal_example = "a", .mean_chosen = 1.25},
      UnpairedFacts{.rows = 8, .desirable = 2, .paired = true, .longest_prompt = 5}};
  for (const RowFacts& facts : all) {
    const RowFacts found = read_facts(facts_text(facts));
    EXPECT_EQ(found.index(), facts.index());
    EXPECT_EQ(facts_text(found), facts_text(facts));
    EXPECT_EQ(counts_of(found).rows, counts_of(facts).rows);
  }
  EXPECT_EQ(std::get<PreferenceFacts>(read_facts(facts_text(all[1]))).equal_example, "a");
  EXPECT_THROW(read_facts(R"({"kind": 3})"), base::UserError);
}

TEST_F(TokenCaches, OtherMethodsAndOptionsHaveOtherKeys) {
  const auto key_of = [this](const base::Json& options) { return token_key(files(), maker_, options); };
  std::vector<std::string> keys;
  for (const base::Json& options :
       {token_options("dpo", {}), token_options("cpo", {}), token_options("dpo", {.keep_end = true}),
        token_options("dpo", {.max_length = 7}), token_options("dpo", {.max_prompt_length = 7}),
        token_options("reward", {.pad_id = 2}), token_options(UnpairedOptions{}),
        token_options(UnpairedOptions{.batch_size = 3}), token_options(options_)}) {
    keys.push_back(key_of(options));
    EXPECT_EQ(std::count(keys.begin(), keys.end(), keys.back()), 1) << options;
  }
  EXPECT_EQ(key_of(token_options("dpo", {.threads = 3})), keys.front());
}

TEST_F(TokenCaches, OtherRowsTokenizersTemplatesAndOptionsHaveOtherKeys) {
  std::vector<std::string> keys = {key()};
  const auto differs = [&](const char* what) {
    const std::string now = key();
    EXPECT_EQ(std::count(keys.begin(), keys.end(), now), 0) << what;
    keys.push_back(now);
  };
  options_.max_length = 13;
  differs("max_length");
  options_.packing = true;
  differs("packing");
  options_.completion_only_loss = false;
  differs("completion_only_loss");
  options_.vocab_size = 1000;
  differs("vocab_size");
  options_.assistant_only_loss = true;
  differs("assistant_only_loss");
  maker_.tokenizer = "another";
  differs("tokenizer");
  maker_.chat_template = "{{ messages }}";
  differs("template");
  maker_.program = "build 2";
  differs("program");
  maker_.text_field = "body";
  differs("text_field");
  write_rows("two2");
  differs("the file");
  options_.threads = 3;  // says nothing about the tokens
  EXPECT_EQ(key(), keys.back());
  base::RowFiles rows = files();
  const auto of = [&] { return token_key(rows, maker_, token_options(options_)); };
  EXPECT_EQ(of(), keys.back());
  rows.mapping.columns = {{"a", "b"}};
  EXPECT_NE(of(), keys.back());
  keys.push_back(of());
  rows.sets[0].parts[0].slice.to = 5;
  EXPECT_NE(of(), keys.back());
  rows.mapping.function.word = "map.py:row";
  EXPECT_EQ(of(), "") << "what a function imports is not seen";
  maker_.chat_template = "{{ strftime_now('%d') }}";
  EXPECT_EQ(key(), "") << "another day, other tokens";
}

TEST_F(TokenCaches, AnotherKeyInTheFileIsNotRead) {
  const TokenCache mine = cache();
  ASSERT_TRUE(keep(mine, tokenized()));
  options_.max_length = 13;
  const TokenCache other = cache();
  base::fs::copy(mine.file(), other.file());
  EXPECT_FALSE(other.read().has_value());
  EXPECT_FALSE(base::fs::exists(other.file()));
}

TEST_F(TokenCaches, DamageIsNeverRead) {
  const TokenCache mine = cache();
  ASSERT_TRUE(keep(mine, tokenized()));
  const std::string whole = base::read_text(mine.file());
  for (std::size_t at = 0; at < whole.size(); at += 97) {
    for (const bool cut : {true, false}) {
      std::string bytes = cut ? whole.substr(0, at) : whole;
      if (!cut) bytes[at] = static_cast<char>(bytes[at] ^ 4);
      std::ofstream(mine.file(), std::ios::binary) << bytes;
      EXPECT_FALSE(mine.read().has_value()) << at;
      EXPECT_FALSE(base::fs::exists(mine.file()));
    }
  }
  ASSERT_TRUE(keep(mine, tokenized()));
  EXPECT_TRUE(mine.read());
}

TEST_F(TokenCaches, WhatIsSmallOrHasNoPlaceIsNotKept) {
  const Dataset made = tokenized();
  EXPECT_FALSE(keep(TokenCache(folder_ / "cache", key()), made));
  EXPECT_FALSE(keep(TokenCache("", key(), 1), made));
  EXPECT_FALSE(keep(TokenCache(folder_ / "rows.jsonl" / "cache", key(), 1), made));
  EXPECT_FALSE(base::fs::exists(folder_ / "cache"));
}

TEST_F(TokenCaches, WhatAKilledProcessLeftIsRemoved) {
  base::fs::create_directories(folder_ / "cache");
  const base::fs::path old = folder_ / "cache" / ".hone-partial.0123456789abcdef.tokens";
  const base::fs::path begun = folder_ / "cache" / ".hone-partial.1123456789abcdef.tokens";
  const base::fs::path other = folder_ / "cache" / ".hone-partial.notes.txt";
  for (const auto& file : {old, begun, other}) std::ofstream(file) << "HONETOK2";
  for (const auto& file : {old, other})
    base::fs::last_write_time(file, base::fs::file_time_type::clock::now() - std::chrono::hours(25));
  ASSERT_TRUE(keep(cache(), tokenized()));
  EXPECT_FALSE(base::fs::exists(old));
  EXPECT_TRUE(base::fs::exists(begun)) << "another process may write it";
  EXPECT_TRUE(base::fs::exists(other));
}

TEST_F(TokenCaches, TheOldestAreRemoved) {
  const Dataset made = tokenized();
  std::vector<base::fs::path> written;
  for (std::size_t i = 0; i < TokenCache::kMostFiles + 3; ++i) {
    options_.max_length = 100 + static_cast<std::int64_t>(i);
    ASSERT_TRUE(keep(cache(), made));
    written.push_back(cache().file());
    const auto age = std::chrono::hours(1000 - static_cast<int>(i));
    base::fs::last_write_time(written.back(), base::fs::file_time_type::clock::now() - age);
  }
  for (std::size_t i = 0; i < written.size(); ++i) EXPECT_EQ(base::fs::exists(written[i]), i >= 3) << i;
}

}  // namespace token_cache_test
}  // namespace hone::data
