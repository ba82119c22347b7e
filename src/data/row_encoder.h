// The ids of a row's prompt, alone and with a completion, for the data sets of prompts and completions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/row_checks.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::data {

// What of a row is encoded. Messages where the data set is conversational, else text; prompt null: none.
struct EncodedRow {
  const base::Json& prompt;
  const base::Json& tools;
  const base::Json& template_kwargs;
  const RowName& where;
};

// Borrows tokenizer and template. TRL's tokenize functions: a completion of text ends with the EOS, a
// conversation as the template ends it; special tokens of the tokenizer are added to text only.
class RowEncoder {
 public:
  RowEncoder(bool conversational, const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
             std::int64_t vocab_size);

  std::vector<std::int32_t> prompt(const EncodedRow& row) const;
  std::vector<std::int32_t> whole(const EncodedRow& row, const base::Json& completion) const;
  // UserError (DATA-10) for an id without a row in the model's embedding.
  void check(const std::vector<std::int32_t>& ids, const RowName& where) const;

 private:
  std::vector<std::int32_t> render(const EncodedRow& row, const base::Json& messages,
                                   bool add_generation_prompt) const;

  bool conversational_;
  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate* chat_template_;
  std::int64_t vocab_size_;
  std::string eos_;
};

// UserErrors of a row with a prompt and a completion.
[[noreturn]] void throw_empty_completion(const std::string& where);
[[noreturn]] void throw_one_token(const std::string& where);

}  // namespace hone::data
