// Tokenized rows on disk, so that the next run with the same rows, tokenizer, template and options need not make them again. A file:
//
//   "HONETOK1"
//   u32 CRC-32C of all that follows
//   u32 bytes of the key, u32 bytes of the facts, u32 0; i64 examples n, i64 tokens t       little-endian
//   the key (what the tokens are made of, as text), the facts (JSON), zeros up to a multiple of 8
//   i64 rows[n], i64 ends[n], i32 ids[t], u8 supervised[t]
//
// The file's name is a hash of its key. One that is damaged, cut or of another key is as none: it is made again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/row_files.h"
#include "data/tokenize.h"

namespace hone::data {

// What decides the tokens besides the rows.
struct TokenMaker {
  std::string program;        // the build that makes them: another one may do it differently
  std::string tokenizer;      // its files, by size and hash, and its end of sequence
  std::string chat_template;  // the source; empty: none
  std::string text_field;
};

// Everything that the tokens of `files` depend on: paths, sizes and times of the files, their parts and order, the mapping, the
// tokenizer, the template, the options. Empty where that is not known: rows made by a Python function, whose imports are not seen, and
// a template that asks for the date (strftime_now). UserError for a file that is not there.
std::string token_key(const base::RowFiles& files, const TokenMaker& maker, const TokenizeOptions& options);

class TokenCache {
 public:
  static constexpr std::int64_t kLeastTokens = 1'000'000;  // fewer take less than a second to make
  static constexpr std::size_t kMostFiles = 32;            // older ones are removed

  // An empty folder or key: nothing is read or kept. `least_tokens` of a data set that is kept.
  TokenCache(base::fs::path folder, std::string key, std::int64_t least_tokens = kLeastTokens);

  const base::fs::path& file() const { return file_; }
  std::optional<Dataset> read() const;
  // False when it is not kept: too small, no room, no right to write. The run needs it not.
  bool write(const Dataset& data) const;

 private:
  void remove_old() const;

  base::fs::path file_;  // empty: none
  std::string key_;
  std::int64_t least_tokens_;
};

}  // namespace hone::data
