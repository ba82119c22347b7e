// Texts and conversations encoded many at a time. Alone, each is handed to a thread of text-ffi and waited for, once to
// be rendered and once to be encoded, which costs more than the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace hone::text {

// Gives what Tokenizer::encode and tokenize_chat give for each item, within the same limits.
class EncodeBatch {
 public:
  // Borrows both. `chat_template` may be null where there are no conversations. Without `want_marks`
  // TokenizedChat::assistant stays empty.
  EncodeBatch(const Tokenizer& tokenizer, const ChatTemplate* chat_template, bool want_marks);

  void add_text(std::string_view text, bool add_special);
  // The fields of a ChatRequest; they are copied.
  void add_chat(const base::Json& messages, const base::Json& tools, const base::Json& template_kwargs,
                bool add_generation_prompt);

  // An entry for each item, in their order. Empty when one of them has an error: encoded one by one, that one
  // says which. Empty too where the model has a template of its own for conversations with tools and one of
  // them has some.
  std::vector<TokenizedChat> run() const;

 private:
  void end_item(std::uint8_t kind);

  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_template_;
  bool want_marks_;
  bool one_by_one_ = false;
  std::string data_;  // the items, one after the other
  std::vector<std::size_t> ends_;
  std::vector<std::uint8_t> kinds_;
};

}  // namespace hone::text
