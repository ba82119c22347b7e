#include "data/forms/row_encoder.h"

#include <utility>

namespace hone::data {

using base::Json;
using base::UserError;

namespace {

Json with_completion(const EncodedRow& row, const Json& completion) {
  Json messages = row.prompt.is_null() ? Json::array() : row.prompt;
  messages.insert(messages.end(), completion.begin(), completion.end());
  return messages;
}

}  // namespace

RowEncoder::RowEncoder(bool conversational, const text::Tokenizer& tokenizer,
                       const text::ChatTemplate* chat_template, std::int64_t vocab_size)
    : conversational_(conversational),
      tokenizer_(tokenizer),
      chat_template_(chat_template),
      vocab_size_(vocab_size),
      eos_(tokenizer.special().eos.value_or("")) {}

std::vector<std::int32_t> RowEncoder::prompt(const EncodedRow& row) const {
  if (const auto known = prepared_.find(&row.prompt); known != prepared_.end()) return known->second;
  if (conversational_) return render(row, row.prompt, /*add_generation_prompt=*/true);
  return tokenizer_.encode(row.prompt.get<std::string>(), /*add_special=*/true).ids;
}

std::vector<std::int32_t> RowEncoder::whole(const EncodedRow& row, const Json& completion) const {
  if (const auto known = prepared_.find(&completion); known != prepared_.end()) return known->second;
  if (conversational_) return render(row, with_completion(row, completion), /*add_generation_prompt=*/false);
  return tokenizer_.encode(whole_text(row, completion), /*add_special=*/true).ids;
}

std::string RowEncoder::whole_text(const EncodedRow& row, const Json& completion) const {
  std::string text = completion;
  if (!text.ends_with(eos_)) text += eos_;
  return row.prompt.is_null() ? text : row.prompt.get<std::string>() + text;
}

RowEncoder::Expected::Expected(const RowEncoder& encoder)
    : encoder_(encoder), batch_(encoder.tokenizer_, encoder.chat_template_, /*want_marks=*/false) {}

void RowEncoder::Expected::prompt(const EncodedRow& row) {
  if (encoder_.conversational_) {
    batch_.add_chat(row.prompt, row.tools, row.template_kwargs, /*add_generation_prompt=*/true);
  } else {
    batch_.add_text(row.prompt.get<std::string>(), /*add_special=*/true);
  }
  keys_.push_back(&row.prompt);
}

void RowEncoder::Expected::whole(const EncodedRow& row, const Json& completion) {
  if (encoder_.conversational_) {
    batch_.add_chat(with_completion(row, completion), row.tools, row.template_kwargs,
                    /*add_generation_prompt=*/false);
  } else {
    batch_.add_text(encoder_.whole_text(row, completion), /*add_special=*/true);
  }
  keys_.push_back(&completion);
}

void RowEncoder::prepare(const std::function<void(Expected&)>& add) {
  prepared_.clear();
  try {
    Expected expected(*this);
    add(expected);
    std::vector<text::TokenizedChat> all = expected.batch_.run();
    for (std::size_t i = 0; i < all.size(); ++i) prepared_[expected.keys_[i]] = std::move(all[i].ids);
  } catch (const std::exception&) {
    prepared_.clear();  // whoever asks for the row gets its error
  }
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
