// The ids of a row's prompt, alone and with a completion, for the data sets of prompts and completions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "data/forms/row_checks.h"
#include "text/chat_template.h"
#include "text/encode_batch.h"
#include "text/tokenizer.h"

namespace hone::data {

// Holds the parts of a row that are encoded. Messages where the data set is conversational, else text; prompt
// null: none.
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
  // What prompt() and whole() will be asked for.
  class Expected {
   public:
    void prompt(const EncodedRow& row);
    void whole(const EncodedRow& row, const base::Json& completion);

   private:
    friend class RowEncoder;
    explicit Expected(const RowEncoder& encoder);

    const RowEncoder& encoder_;
    text::EncodeBatch batch_;
    std::vector<const base::Json*> keys_;
  };
  // Encodes at once what `add` adds; until the next call prompt() and whole() find it there by the places of its prompt and
  // completion, which stay. Where one of them has an error nothing is kept, and prompt() or whole() says which.
  void prepare(const std::function<void(Expected&)>& add);

  // UserError (DATA-10) for an id without a row in the model's embedding.
  void check(const std::vector<std::int32_t>& ids, const RowName& where) const;

 private:
  std::vector<std::int32_t> render(const EncodedRow& row, const base::Json& messages,
                                   bool add_generation_prompt) const;
  std::string whole_text(const EncodedRow& row, const base::Json& completion) const;

  bool conversational_;
  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate* chat_template_;
  std::int64_t vocab_size_;
  std::string eos_;
  std::unordered_map<const base::Json*, std::vector<std::int32_t>> prepared_;  // of prompts and completions
};

// UserErrors of a row with a prompt and a completion.
[[noreturn]] void throw_empty_completion(const std::string& where);
[[noreturn]] void throw_one_token(const std::string& where);

}  // namespace hone::data
