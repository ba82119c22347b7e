#include "data/forms/row_checks.h"

#include <algorithm>

namespace hone::data {

using base::UserError;

void check_token_ids(std::span<const std::int32_t> ids, std::int64_t vocab_size,
                     const text::Tokenizer& tokenizer, const RowName& where) {
  if (vocab_size <= 0) return;
  const auto outside =
      std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id < 0 || id >= vocab_size; });
  if (outside == ids.end()) return;
  throw UserError(
      {.where = where(),
       .expected =
           "token ids below " + std::to_string(vocab_size) + ", the rows of the model's embedding (DATA-10)",
       .found = "id " + std::to_string(*outside) + ", token '" +
                tokenizer.id_to_token(*outside).value_or("?") + "'",
       .cause = "the tokenizer has tokens that the model does not have, or belongs to another model",
       .fix = "use the model's own tokenizer, or take this token out of the data and the template"});
}

void require_template_or_eos(const base::fs::path& file, bool conversational,
                             const text::Tokenizer& tokenizer, const text::ChatTemplate* chat_template,
                             bool by_option) {
  if (conversational && chat_template == nullptr) {
    throw UserError(
        {.where = file.string(),
         .expected = "a tokenizer with a chat template, since the rows are messages",
         .found = "a tokenizer without one",
         .cause = "a base model, not an instruct model",
         .fix = by_option ? "set chat_template_path to a .jinja file, or give the rows as text"
                          : "put a chat_template.jinja into the model's folder, or give the rows as text"});
  }
  if (!conversational && !tokenizer.special().eos) {
    throw UserError({.where = "tokenizer",
                     .expected = "an end-of-sequence token to append to each completion",
                     .found = "no eos_token",
                     .cause = "tokenizer_config.json does not name one",
                     .fix = by_option ? "set eos_token" : "name it there"});
  }
}

}  // namespace hone::data
