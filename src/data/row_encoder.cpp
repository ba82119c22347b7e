#include "data/row_encoder.h"

namespace hone::data {

using base::Json;
using base::UserError;

RowEncoder::RowEncoder(bool conversational, const text::Tokenizer& tokenizer,
                       const text::ChatTemplate* chat_template, std::int64_t vocab_size)
    : conversational_(conversational),
      tokenizer_(tokenizer),
      chat_template_(chat_template),
      vocab_size_(vocab_size),
      eos_(tokenizer.special().eos.value_or("")) {}

std::vector<std::int32_t> RowEncoder::prompt(const EncodedRow& row) const {
  if (conversational_) return render(row, row.prompt, /*add_generation_prompt=*/true);
  return tokenizer_.encode(row.prompt.get<std::string>(), /*add_special=*/true).ids;
}

std::vector<std::int32_t> RowEncoder::whole(const EncodedRow& row, const Json& completion) const {
  if (conversational_) {
    Json messages = row.prompt.is_null() ? Json::array() : row.prompt;
    messages.insert(messages.end(), completion.begin(), completion.end());
    return render(row, messages, /*add_generation_prompt=*/false);
  }
  std::string text = completion;
  if (!text.ends_with(eos_)) text += eos_;
  if (!row.prompt.is_null()) text = row.prompt.get<std::string>() + text;
  return tokenizer_.encode(text, /*add_special=*/true).ids;
}

void RowEncoder::check(const std::vector<std::int32_t>& ids, const RowName& where) const {
  check_token_ids(ids, vocab_size_, tokenizer_, where);
}

std::vector<std::int32_t> RowEncoder::render(const EncodedRow& row, const Json& messages,
                                             bool add_generation_prompt) const {
  return with_row_context(row.where, [&] {
    return text::tokenize_chat(tokenizer_, *chat_template_,
                               {.messages = messages,
                                .tools = row.tools,
                                .template_kwargs = row.template_kwargs,
                                .add_generation_prompt = add_generation_prompt})
        .ids;
  });
}

void throw_empty_completion(const std::string& where) {
  throw UserError({.where = where,
                   .expected = "a completion",
                   .found = "nothing: prompt + completion has no more tokens than the prompt",
                   .cause = "an empty completion, or a template that already closes the prompt's last turn",
                   .fix = "write a completion into this row, or remove the row"});
}

void throw_one_token(const std::string& where) {
  throw UserError({.where = where,
                   .expected = "a token to train on, preceded by another token",
                   .found = "a sequence of one token",
                   .cause = "an empty prompt, and a tokenizer that adds no token before it",
                   .fix = "write a prompt into this row, or remove the row"});
}

}  // namespace hone::data
