// Tokenized rows on disk, so that the next run with the same rows, tokenizer, template and options need not make them again. The
// file is that of data/records/records.h; its name is a hash of its key. One that is damaged, cut or of another key
// is as none: it is made again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/row_files.h"
#include "data/forms/row_facts.h"
#include "data/records/record_writer.h"

namespace hone::data {

// Holds what decides the tokens besides the rows.
struct TokenMaker {
  std::string program;        // the build that makes them: another one may do it differently
  std::string tokenizer;      // its files, by size and hash, and its end of sequence
  std::string chat_template;  // the source; empty: none
  std::string text_field;
};

// Returns those of a method's options that decide the tokens. `method`: pairs are made differently for each.
base::Json token_options(const TokenizeOptions& options);
base::Json token_options(const std::string& method, const PairOptions& options);
base::Json token_options(const UnpairedOptions& options);

// Everything that the tokens of `files` depend on: paths, sizes and times of the files, their parts and order, the mapping, the
// tokenizer, the template, the options. Empty where that is not known: rows made by a Python function, whose imports are not seen, and
// a template that asks for the date (strftime_now). UserError for a file that is not there.
std::string token_key(const base::RowFiles& files, const TokenMaker& maker, const base::Json& options);

struct KeptRecords {
  Records records;
  RowFacts facts;
};

class TokenCache {
 public:
  static constexpr std::int64_t kLeastTokens = 1'000'000;   // fewer take less than a second to make
  static constexpr std::size_t kMostFiles = 32;             // older ones are removed
  static constexpr std::uint64_t kMostBytes = 64ULL << 30;  // ... but for the newest

  // An empty folder or key: nothing is read or kept. `least_tokens` of a data set that is kept.
  TokenCache(base::fs::path folder, std::string key, std::int64_t least_tokens = kLeastTokens);

  const base::fs::path& file() const { return file_; }
  // nullopt: there is none of this key. One that is damaged is removed.
  std::optional<KeptRecords> read() const;
  // Returns the place where a RecordWriter puts the tokens.
  RecordPlace place() const;
  // finish() of that writer, with the facts. What cannot be kept is not: the run needs it not.
  Records finish(RecordWriter& writer, const RowFacts& facts) const;

 private:
  std::optional<TokenFile> open() const;
  void remove() const;
  void remove_old() const;

  base::fs::path file_;  // empty: none
  std::string key_;
  std::int64_t least_tokens_;
};

}  // namespace hone::data
