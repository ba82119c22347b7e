#include "data/forms/given_completions.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "data/forms/row_checks.h"
#include "data/forms/row_encoder.h"

namespace hone::data {

using base::Json;
using base::UserError;

namespace {

const Json& completion_of(const PromptRow& row) {
  const auto found = row.not_for_rewards.find("completion");
  const bool there = found != row.not_for_rewards.end() && !found->is_null();
  if (there && found->is_array() == row.prompt.is_array() && (found->is_array() || found->is_string()))
    return *found;
  throw UserError(
      {.where = row.where + " completion",
       .expected = std::string(kind_of(row.prompt)) + ", as the prompt is",
       .found = there ? found->type_name() : "no completion",
       .cause = "where lmbda is below 1, micro-batches take their completions from the data",
       .fix =
           "write the completions into the rows (messages that end with the assistant's turn, or prompt and "
           "completion); lmbda: 1 or seq_kd: true need none"});
}

Json template_kwargs_of(const PromptRow& row, const Json& template_kwargs) {
  Json out = template_kwargs.is_object() ? template_kwargs : Json::object();
  const auto own = row.columns.find("chat_template_kwargs");
  if (own != row.columns.end() && own->is_object()) out.update(*own);
  return out;
}

}  // namespace

std::vector<GivenCompletion> tokenize_completions(const std::vector<PromptRow>& rows,
                                                  const text::Tokenizer& tokenizer,
                                                  const text::ChatTemplate* chat_template,
                                                  const Json& template_kwargs, std::int64_t vocab_size) {
  std::vector<GivenCompletion> out;
  if (rows.empty()) return out;
  const bool conversational = rows.front().prompt.is_array();
  require_template_or_eos("the data set", conversational, tokenizer, chat_template, true);
  const RowEncoder encoder(conversational, tokenizer, chat_template, vocab_size);
  out.reserve(rows.size());
  for (const PromptRow& row : rows) {
    const Json kwargs = template_kwargs_of(row, template_kwargs);
    Json tools = row.columns.contains("tools") ? row.columns.at("tools") : Json();
    if (tools.empty()) tools = Json();
    const RowName where = [&row] { return row.where; };
    const EncodedRow parts{.prompt = row.prompt, .tools = tools, .template_kwargs = kwargs, .where = where};
    const std::vector<std::int32_t> prompt = encoder.prompt(parts);
    std::vector<std::int32_t> whole = encoder.whole(parts, completion_of(row));
    encoder.check(whole, where);
    const auto begin = std::mismatch(whole.begin(), whole.end(), prompt.begin(), prompt.end()).first;
    if (begin == whole.end()) throw_empty_completion(row.where);
    if (begin == whole.begin()) throw_one_token(row.where);
    out.push_back({.prompt = {whole.begin(), begin}, .ids = {begin, whole.end()}});
  }
  return out;
}

}  // namespace hone::data
